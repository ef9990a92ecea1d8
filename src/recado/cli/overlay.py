"""``recado overlay``: many nodes on this machine, from one topology file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from recado.cli.output import complain, console, for_people, plural, write_json
from recado.cli.verb import FAILED, OK, import_from_here, verb

_HELP = """\
A topology file says who is linked with whom:

  overlay = "laptop"
  links = ["ana-bruno", "bruno-carla"]

  [nodes.carla]
  publishes = ["Tick"]

Then:

  recado overlay up laptop.toml
  recado node subscribe --node laptop/ana 'Price < 25' --type Tick
  recado overlay show laptop
  recado overlay down laptop
"""

app = verb("overlay", epilogue=_HELP)

Overlay = Annotated[str, Parameter(help="The overlay's name; with only one running, it may be left out.")]


@app.command
def up(
    topology: Path,
    /,
    *,
    protocol: str = "",
    processes: int = 0,
    nodes_per_process: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    pace: Annotated[float | None, Parameter(validator=Number(gte=0))] = None,
    seconds: float = 60.0,
    resume: bool = False,
    json: bool = False,
) -> int:
    """Start the nodes of a topology file and wait until all links are up, or all nodes have joined.

    Nodes that run already are left alone, so the same command starts again the ones that were killed.

    Parameters
    ----------
    topology
        The topology file, in TOML.
    protocol
        The protocol that the nodes run, by its name, or your own as module:Class; without it, what the file says.
    processes
        Spread the nodes over so many processes; 0 gives each node its own.
    nodes_per_process
        The same, by how many nodes share a process.
    pace
        Start so many nodes a second, one after another; 0 starts all at once. Without it, what the file says.
    seconds
        Give up after so long, counted from the start of the last node.
    resume
        Begin with what the nodes had saved when the overlay was last down.
    json
        Write NDJSON even on a terminal.
    """
    from recado.overlay.launch import new_launch, read_plan, relaunch, start

    import_from_here()
    plan = read_plan(topology, protocol)
    launch = relaunch(plan) or new_launch(plan, topology.parent)
    launch.pace = launch.pace if pace is None else pace
    if nodes_per_process:
        processes = -(-len(launch.nodes) // nodes_per_process)
    started = start(launch, processes, seconds, fresh=not resume)
    ready = "all have joined" if launch.joins else "all links are up"
    complain(f"overlay {launch.overlay}: started {plural(len(started), 'node')}, {ready}")
    _show_nodes(launch.overlay, json)
    return 0


@app.command
def down(overlay: Overlay = "", /) -> int:
    """Stop all nodes of an overlay."""
    from recado.overlay.launch import read_launch, stop

    launch = read_launch(_find(overlay))
    complain(f"overlay {launch.overlay}: stopped {plural(stop(launch), 'node')}")
    return 0


@app.command
def show(overlay: Overlay = "", /, *, subscription: str = "", json: bool = False) -> int:
    """Show the nodes of an overlay, or the whole tree of a subscription.

    Parameters
    ----------
    subscription
        Draw the tree of this subscription.
    json
        Write NDJSON even on a terminal.
    """
    overlay = _find(overlay)
    if not subscription:
        _show_nodes(overlay, json)
        return 0
    with _open_client(overlay) as client:
        rows = client.rows(subscription)
    if for_people(json):
        console().print(tree_view(subscription, rows))
    else:
        write_json({"subscription": subscription, "rows": rows})
    return 0 if rows else 1


@app.command
def story(about: str, /, *, overlay: str = "", last: int = 100, json: bool = False) -> int:
    """Tell the story of an event or a subscription through all nodes, in the order of their clocks.

    Parameters
    ----------
    about
        The id of an event or of a subscription.
    overlay
        The overlay's name; with only one running, it may be left out.
    last
        At most so many steps.
    json
        Write NDJSON even on a terminal.
    """
    with _open_client(_find(overlay)) as client:
        return show_story(client.story(about, last), json)


@app.command
def run(
    script: Path,
    /,
    *,
    overlay: str = "",
    pause: Annotated[float, Parameter(validator=Number(gte=0))] = 0.0,
    json: bool = False,
) -> int:
    """Carry out a script of operations one after another, each when the one before has come to rest.

    A script has one JSON object a line: the node, and a request of the control socket, such as
    {"node": "ana", "do": "subscribe", "subscription": {"id": "cheap", "type": "Tick", "filter": "Price < 25"}}.

    Parameters
    ----------
    script
        The script, NDJSON.
    overlay
        The overlay's name; with only one running, it may be left out.
    pause
        Wait so many seconds after each operation instead; for protocols whose nodes are never at rest.
    json
        Write NDJSON even on a terminal.
    """
    from recado.overlay.client import read_script, run_script

    steps = read_script(script)
    with _open_client(_find(overlay)) as client:
        outcomes = list(run_script(client, steps, pause))
    if for_people(json):
        console().print(outcomes_table(outcomes))
        return 0
    for outcome in outcomes:
        write_json(outcome)
    return 0


def _find(overlay: str) -> str:
    """The overlay that is meant; without a name, the only one."""
    from recado.overlay.addresses import check_name, running_nodes
    from recado.overlay.limits import OverlayError

    if overlay:
        return check_name(overlay)
    names = list(dict.fromkeys(path.parent.name for path in running_nodes()))
    if not names:
        raise OverlayError("no overlay runs here; see: recado overlay up --help")
    if len(names) > 1:
        raise OverlayError(f"several overlays run here; name one: {', '.join(names)}")
    return names[0]


def _open_client(overlay: str) -> Any:
    from recado.overlay.addresses import running_nodes
    from recado.overlay.client import OverlayClient
    from recado.overlay.limits import OverlayError

    sockets = running_nodes(overlay)
    if not sockets:
        raise OverlayError(f"no node of overlay {overlay!r} runs here")
    return OverlayClient(sockets)


def _show_nodes(overlay: str, json: bool) -> None:

    with _open_client(overlay) as client:
        shown = client.ask_all("show")
    if for_people(json):
        console().print(nodes_table(shown))
        return
    for node in shown.values():
        write_json(node)


# --- How nodes, links, trees and stories look on a terminal. Everything takes the plain data of a control socket


Rows = Mapping[str, Mapping[str, Any]]
"""The routing row of one subscription at each node that has one: ``next`` and ``origin``."""


def _table(title: str, *columns: str, right: Iterable[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, title_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def node_view(shown: Mapping[str, Any], trees: Mapping[str, Rows]) -> list[RenderableType]:
    """A node with everything that it knows."""
    about = Text(f"{shown['node']} of overlay {shown['overlay']}, {shown['protocol']}, listens on {shown['address']}")
    return [
        about,
        Text("; ".join(shown["roles"])),
        *(piece for title, facts in shown.get("sections", {}).items() for piece in ("", facts_table(title, facts))),
        "",
        links_table(shown["links"]),
        "",
        counters_table(shown["counters"]),
        *(piece for id, rows in trees.items() for piece in ("", tree_view(id, rows, at=shown["node"]))),
    ]


def facts_table(title: str, facts: Mapping[str, Any]) -> Table:
    """What the protocol tells of a node under one title."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, title_style="bold", show_header=False)
    for name, value in facts.items():
        if isinstance(value, bool):
            text = "yes" if value else "no"
        elif isinstance(value, list):
            text = " ".join(map(str, value)) or "none"
        else:
            text = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(Text(name), Text(text))
    return table


def links_table(links: Mapping[str, Mapping[str, Any]]) -> Table:
    numbers = ("sent", "received", "queued", "seconds")
    table = _table("links", "peer", "dialled by", *numbers, right=numbers)
    for peer, link in links.items():
        by = "this node" if link["dialled"] else "the peer"
        queued = f"{link['queued_bytes']:,} B"
        table.add_row(peer, by, f"{link['sent']:,}", f"{link['received']:,}", queued, f"{link['seconds']:.0f}")
    return table


def counters_table(counters: Mapping[str, Any]) -> Table:
    table = _table("messages", "kind", "sent", "received", "failed", right=("sent", "received", "failed"))
    columns = [counters[name] for name in ("sent", "received", "failed")]
    for kind in sorted({kind for column in columns for kind in column}):
        table.add_row(kind, *(f"{column.get(kind, 0):,}" for column in columns))
    table.add_row("bytes", f"{counters['sent_bytes']:,}", f"{counters['received_bytes']:,}", "")
    return table


def tree_view(subscription: str, rows: Rows, at: str = "") -> Tree:
    """The tree of a subscription from its root; with what nodes on other machines are named but not known."""
    drawn: dict[str, None] = {}
    roots = [name for name, row in rows.items() if name in row["next"]]
    tree = Tree(Text(f"tree of {subscription}", style="bold"), guide_style="dim")
    for name in roots or _tops(rows):
        _grow(tree, name, rows, drawn, at)
    if not rows:
        tree.add(Text("no node here has a row of it", style="dim"))
    return tree


def _tops(rows: Rows) -> list[str]:
    """Where to begin if the subscriber is not among the nodes that were asked: whose next is unknown."""
    return [name for name, row in rows.items() if not any(next in rows for next in row["next"])]


def _grow(above: Tree, name: str, rows: Rows, drawn: dict[str, None], at: str) -> None:
    row = rows.get(name)
    label = Text(name, style="bold" if name == at else "")
    if row is None:
        label.append("  on another machine", style="dim")
    else:
        label.append("  subscriber" if name in row["next"] else "", style="dim")
        label.append("  publisher" if name in row["origin"] else "", style="dim")
    branch = above.add(label)
    if row is None or name in drawn:
        return
    drawn[name] = None
    for origin in row["origin"]:
        if origin != name:
            _grow(branch, origin, rows, drawn, at)


def nodes_table(shown: Mapping[str, Mapping[str, Any]]) -> Table:
    """One line for each node of an overlay; with its role where the protocol has roles, else with what it publishes."""
    roles = any("role" in node["machine"] for node in shown.values())
    numbers = ("links", "sent", "delivered") if roles else ("rows", "sent", "delivered")
    columns = ("role",) if roles else ("links", "publishes")
    table = _table("", "node", "address", *columns, "subscribed", *numbers, right=numbers)
    for column in (table.columns[1], *table.columns[-3:]):
        column.no_wrap = True
    for name, node in shown.items():
        machine, counters = node["machine"], node["counters"]
        rows = sum(map(len, machine.get("tables", {}).values()))
        what = (
            (machine.get("role", ""),) if roles else (" ".join(node["links"]), " ".join(machine.get("publishes", ())))
        )
        table.add_row(
            name,
            node["address"],
            *what,
            " ".join(machine.get("subscriptions", ())),
            f"{len(node['links']) if roles else rows:,}",
            f"{sum(counters['sent'].values()):,}",
            f"{counters['delivered']:,}",
        )
    return table


def outcomes_table(outcomes: Iterable[Any]) -> Table:
    """One line for each step of a script."""
    table = _table("", "node", "operation", "messages", "by kind", "delivered to", right=("messages",))
    for outcome in outcomes:
        kinds = " ".join(f"{kind} {count}" for kind, count in outcome.messages.items())
        to = " ".join(delivered.node for delivered in outcome.deliveries)
        step = outcome.step
        what = step.id or step.type or (step.event or step.subscription or {}).get("id", "")
        table.add_row(step.node, f"{step.do} {what}", f"{sum(outcome.messages.values()):,}", kinds, to)
    return table


def item_line(item: Mapping[str, Any]) -> Text:
    """What a subscription brought, on one line."""
    if "gap" in item:
        return Text(f"{item['gap']} events were dropped because they were not read in time", style="yellow")
    if "event" not in item:
        rest = " ".join(f"{name}={value}" for name, value in item.items() if name != "fact")
        return Text(f"{item['fact']} {rest}", style="dim")
    event = dict(item["event"])
    line = Text(str(event.pop("id")), style="bold")
    line.append(f"  {event.pop('type', '')}  ", style="cyan")
    return line.append("  ".join(f"{name}={_value(value)}" for name, value in event.items()))


def show_items(items: Iterable[Mapping[str, Any]], count: int, people: bool) -> None:
    """What a subscription brings, as it comes, until there were ``count`` events; 0 means for ever."""
    out = console()
    for item in items:
        if people:
            out.print(item_line(item), soft_wrap=True)
        else:
            write_json(item)
            sys.stdout.flush()
        count -= "event" in item
        if count == 0 and "event" in item:
            return


def show_story(steps: Sequence[Mapping[str, Any]], json: bool) -> int:
    """The steps, and the exit code: 1 if there are none."""
    out = console()
    for step in steps:
        if not for_people(json):
            write_json(step)
            continue
        for line in step_lines(step):
            out.print(line, soft_wrap=True)
    return OK if steps else FAILED


def step_lines(step: Mapping[str, Any]) -> Iterator[Text]:
    """What happened, and below it what the node did."""
    at = datetime.fromtimestamp(step["time"], UTC).strftime("%H:%M:%S.%f")[:-3]
    node = f"{step['node']}  " if "node" in step else ""
    yield Text(f"{at}  {node}{_describe_stimulus(step)}")
    for effect in step["then"]:
        yield Text(f"    {_describe_effect(effect)}", style="dim")


def _describe_stimulus(step: Mapping[str, Any]) -> str:
    match step["what"]:
        case "Received":
            return f"received {step['kind']} from {step['from']}  {_value(step['message'])}"
        case "Asked":
            return f"asked to {step['kind']}  {_value(step['message'])}"
    rest = {k: v for k, v in step.items() if k not in ("node", "step", "time", "what", "then")}
    return f"{step['what']}  {_value(rest)}"


def _describe_effect(effect: Mapping[str, Any]) -> str:
    if effect["do"] == "Send":
        return f"-> {effect['to']}  {effect['kind']}" + (f"  ({effect['why']})" if effect["why"] else "")
    if effect["do"] in ("Deliver", "Report"):
        return f"{effect['do'].lower()}s {effect['kind']}  {_value(effect['message'])}"
    return f"{effect['do']}  {_value({k: v for k, v in effect.items() if k != 'do'})}"


def _value(value: Any, most: int = 120) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(_brief(value)).decode()
    return text if len(text) <= most else text[: most - 1] + "…"


def _brief(value: Any) -> Any:
    """Without what is empty."""
    if isinstance(value, dict):
        return {name: _brief(one) for name, one in value.items() if one not in (None, "", [], {})}
    return [_brief(one) for one in value] if isinstance(value, list) else value
