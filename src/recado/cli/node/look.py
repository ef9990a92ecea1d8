"""Look at a running node."""

from __future__ import annotations

from typing import Any

from recado.cli.node.which import NodeName, ask_node
from recado.cli.output import console, for_people, write_json


def show(subscription: str = "", /, *, json: bool = False, node: NodeName = "") -> int:
    """Show a node: roles, links, routing tables, counters, and the trees that it is part of.

    Parameters
    ----------
    subscription
        Only the tree of this subscription, gathered from all nodes of the overlay on this machine.
    json
        Write JSON even on a terminal.
    node
        The node to show.
    """
    from recado.cli.overlay_views import node_view, tree_view
    from recado.overlay.names import find_node, running
    from recado.overlay.watch import Watch

    path = find_node(node)
    with Watch(running(path.parent.name)) as watch:
        if subscription:
            rows = watch.rows(subscription)
            shown: Any = {"subscription": subscription, "rows": rows}
            view: list[Any] = [tree_view(subscription, rows)]
        else:
            shown = watch.ask(path.stem, "show")
            trees = {id: watch.rows(id) for rows in shown["machine"].get("tables", {}).values() for id in rows}
            view = node_view(shown, trees)
    if for_people(json):
        out = console()
        for piece in view:
            out.print(piece)
    else:
        write_json(shown)
    return 1 if subscription and not rows else 0


def story(about: str = "", /, *, last: int = 50, json: bool = False, node: NodeName = "") -> int:
    """Tell what a node did lately, and why.

    Parameters
    ----------
    about
        Only the steps that name this text: the id of an event or of a subscription.
    last
        At most so many steps.
    json
        Write NDJSON even on a terminal.
    node
        The node to ask.
    """
    from recado.cli.overlay_views import show_story

    return show_story(ask_node(node, "story", about=about, last=last), json)


def peers(*, json: bool = False, node: NodeName = "") -> int:
    """List the links of a node.

    Parameters
    ----------
    json
        Write NDJSON even on a terminal.
    node
        The node to ask.
    """
    from recado.cli.overlay_views import links_table

    links = ask_node(node, "show")["links"]
    if for_people(json):
        console().print(links_table(links))
        return 0
    for peer, link in links.items():
        write_json({"peer": peer, **link})
    return 0
