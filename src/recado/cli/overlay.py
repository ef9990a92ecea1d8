"""``recado overlay``: many nodes on this machine, from one topology file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from recado.cli.output import complain, console, for_people, plural, write_json
from recado.cli.verb import verb

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
    topology: Path, /, *, processes: int = 0, seconds: float = 60.0, resume: bool = False, json: bool = False
) -> int:
    """Start the nodes of a topology file and wait until all links are up.

    Nodes that run already are left alone, so the same command starts again the ones that were killed.

    Parameters
    ----------
    topology
        The topology file, in TOML.
    processes
        Spread the nodes over so many processes; 0 gives each node its own.
    seconds
        Give up after so long.
    resume
        Begin with what the nodes had saved when the overlay was last down.
    json
        Write NDJSON even on a terminal.
    """
    from recado.overlay.launch import new_launch, relaunch, start
    from recado.overlay.plan import read_plan

    plan = read_plan(topology)
    launch = relaunch(plan) or new_launch(plan, topology.parent)
    started = start(launch, processes, seconds, fresh=not resume)
    complain(f"overlay {launch.overlay}: started {plural(len(started), 'node')}, all links are up")
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
    from recado.cli.overlay_views import tree_view

    overlay = _find(overlay)
    if not subscription:
        _show_nodes(overlay, json)
        return 0
    with _watch(overlay) as watch:
        rows = watch.rows(subscription)
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
    from recado.cli.overlay_views import show_story

    with _watch(_find(overlay)) as watch:
        return show_story(watch.story(about, last), json)


@app.command
def run(script: Path, /, *, overlay: str = "", json: bool = False) -> int:
    """Carry out a script of operations one after another, each when the one before has come to rest.

    A script has one JSON object a line: the node, and a request of the control socket, such as
    {"node": "ana", "do": "subscribe", "subscription": {"id": "cheap", "type": "Tick", "filter": "Price < 25"}}.

    Parameters
    ----------
    script
        The script, NDJSON.
    overlay
        The overlay's name; with only one running, it may be left out.
    json
        Write NDJSON even on a terminal.
    """
    from recado.cli.overlay_views import outcomes_table
    from recado.overlay.script import perform, read_script

    steps = read_script(script)
    with _watch(_find(overlay)) as watch:
        outcomes = list(perform(watch, steps))
    if for_people(json):
        console().print(outcomes_table(outcomes))
        return 0
    for outcome in outcomes:
        write_json(outcome)
    return 0


def _find(overlay: str) -> str:
    """The overlay that is meant; without a name, the only one."""
    from recado.overlay.errors import OverlayError
    from recado.overlay.names import check_name, running

    if overlay:
        return check_name(overlay)
    names = list(dict.fromkeys(path.parent.name for path in running()))
    if not names:
        raise OverlayError("no overlay runs here; see: recado overlay up --help")
    if len(names) > 1:
        raise OverlayError(f"several overlays run here; name one: {', '.join(names)}")
    return names[0]


def _watch(overlay: str) -> Any:
    from recado.overlay.errors import OverlayError
    from recado.overlay.names import running
    from recado.overlay.watch import Watch

    sockets = running(overlay)
    if not sockets:
        raise OverlayError(f"no node of overlay {overlay!r} runs here")
    return Watch(sockets)


def _show_nodes(overlay: str, json: bool) -> None:
    from recado.cli.overlay_views import nodes_table

    with _watch(overlay) as watch:
        shown = watch.all("show")
    if for_people(json):
        console().print(nodes_table(shown))
        return
    for node in shown.values():
        write_json(node)
