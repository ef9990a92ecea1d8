"""``recado radio``: a sensor network of real processes on this machine, with a medium that stands for the air."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.table import Table

from recado.cli.output import complain, console, for_people, plural, write_json, write_line
from recado.cli.overlay import facts_table, show_items, show_story
from recado.cli.verb import Source, verb

_HELP = """\
A scene file says which nodes there are, where they stand, and what they want:

  scene = "forest"

  [placement]
  kind = "connected"
  nodes = 12
  side = 600.0

  [nodes.n0]
  subscribes = ["temperature > 60 and humidity < 30"]

Then, with one process for each node and one for the air between them:

  recado radio up forest.toml
  recado radio subscribe n3 'temperature > 40'
  recado radio publish n7 '{"type": "Sample", "temperature": 71, "humidity": 12}'
  recado radio show n7
  recado radio fault --loss 0.1 --cut n1,n2
  recado radio down

--scene names a scene; with only one running, it may be left out.
"""

app = verb("radio", epilogue=_HELP)

SceneName = Annotated[str, Parameter(name=["--scene", "-s"])]
Count = Annotated[int, Parameter(validator=Number(gte=0))]


@app.command
def up(scene: Path, /, *, factor: float | None = None, seconds: float = 60.0, json: bool = False) -> int:
    """Start the processes of a scene file and wait until all of them answer.

    Nodes that run already are left alone, so the same command starts again the ones that were killed. They begin
    empty, with the subscriptions that the file gives them.

    Parameters
    ----------
    scene
        The scene file, in TOML.
    factor
        So many times slower than the protocol's own time; without it, what the file says, else 10. Less is quicker;
        below 5 the noise of this machine's scheduler can be larger than the times that the protocol tells apart.
    seconds
        Give up after so long.
    json
        Write NDJSON even on a terminal.
    """
    import msgspec

    from recado.radio.launch import open_scene, start
    from recado.radio.scene import check_scene, read_scene

    found = read_scene(scene)
    if factor is not None:
        found = check_scene(msgspec.structs.replace(found, factor=factor))
    pieces = found.pieces()
    if len(pieces) > 1:
        complain(f"note: not all nodes can reach each other; there are {len(pieces)} pieces")
    started = start(found, seconds)
    complain(f"scene {found.scene}: started {plural(len(started), 'node')}, time is {found.factor:g} times slower")
    with open_scene(found.scene) as client:
        _show_nodes(client, json)
    return 0


@app.command
def down(scene: str = "", /) -> int:
    """Stop all processes of a scene.

    Parameters
    ----------
    scene
        Its name; with only one running, it may be left out.
    """
    from recado.radio.launch import scene_folder, stop

    folder = scene_folder(scene)
    complain(f"scene {folder.name}: stopped {plural(stop(folder), 'node')}")
    return 0


@app.command
def show(node: str = "", /, *, scene: SceneName = "", json: bool = False) -> int:
    """Show a node: its subscriptions, the copies it keeps for others, its routes, what it sent; or all nodes.

    Parameters
    ----------
    node
        The node; medium for the air: places, faults, and what it has carried. Without it, one line for each node.
    scene
        The scene.
    json
        Write NDJSON even on a terminal.
    """
    from recado.radio.launch import open_scene

    with open_scene(scene) as client:
        if not node:
            _show_nodes(client, json)
            return 0
        shown = client.ask(node, "show")
    if not for_people(json):
        write_json(shown)
        return 0
    out = console()
    for piece in _medium_view(shown) if "places" in shown else _node_view(shown):
        out.print(piece)
    return 0


@app.command
def publish(node: str, event: Source, /, *, scene: SceneName = "") -> int:
    """Publish an event at a node.

    Parameters
    ----------
    node
        The node that publishes.
    event
        A JSON object, flat or a CloudEvent, or - for one a line on standard input. One without an id gets one.
    scene
        The scene.
    """
    from recado.model.codec import read_event
    from recado.model.flat import to_flat
    from recado.radio.launch import open_scene

    with open_scene(scene) as client:
        for text in sys.stdin if event == "-" else (event,):
            if not text.strip():
                continue
            record = to_flat(read_event(text, default_id=f"{node}-{secrets.token_hex(8)}"))
            client.ask(node, "publish", event=record)
            write_line(str(record["id"]))
    return 0


@app.command
def subscribe(
    node: str,
    filter: str = "",
    /,
    *,
    type: str = "",
    id: str = "",
    keep: bool = False,
    detach: bool = False,
    count: Count = 0,
    scene: SceneName = "",
    json: bool = False,
) -> int:
    """Subscribe at a node, and show what comes until you press Ctrl-C.

    Parameters
    ----------
    node
        The node that becomes a sink.
    filter
        What the events must be like, such as 'temperature > 60'; without it, every event of the type.
    type
        The type of event.
    id
        A name for the subscription; without it, one is drawn.
    keep
        Leave the subscription in place at the end; see follow and unsubscribe.
    detach
        Only make the subscription, and keep it.
    count
        End after so many notifications.
    scene
        The scene.
    json
        Write NDJSON even on a terminal.
    """
    record: dict[str, Any] = {"id": id or f"s-{secrets.token_hex(8)}"}
    record |= {"filter": filter} if filter else {}
    record |= {"type": type} if type else {}
    with closing(_client(node, scene)) as client:
        client.ask("subscribe", subscription=record, keep=keep, follow=not detach)
        complain(f"subscribed as {record['id']}")
        if not detach:
            show_items(client.stream(), count, for_people(json))
    return 0


@app.command
def follow(node: str, id: str, /, *, count: Count = 0, scene: SceneName = "", json: bool = False) -> int:
    """Show what a kept subscription brings, and brought while nobody followed it.

    Parameters
    ----------
    node
        The node that subscribed.
    id
        The subscription.
    count
        End after so many notifications.
    scene
        The scene.
    json
        Write NDJSON even on a terminal.
    """
    with closing(_client(node, scene)) as client:
        client.ask("follow", id=id)
        show_items(client.stream(), count, for_people(json))
    return 0


@app.command
def unsubscribe(node: str, id: str, /, *, scene: SceneName = "") -> int:
    """End a subscription of a node.

    Parameters
    ----------
    node
        The node that subscribed.
    id
        The subscription.
    scene
        The scene.
    """
    from recado.radio.launch import open_scene

    with open_scene(scene) as client:
        client.ask(node, "unsubscribe", id=id)
    return 0


@app.command
def story(node: str, about: str = "", /, *, last: int = 50, scene: SceneName = "", json: bool = False) -> int:
    """Tell what a node did lately, and why.

    Parameters
    ----------
    node
        The node to ask.
    about
        Only the steps that name this text: the id of an event, say.
    last
        At most so many steps.
    scene
        The scene.
    json
        Write NDJSON even on a terminal.
    """
    from recado.radio.launch import open_scene

    with open_scene(scene) as client:
        return show_story(client.ask(node, "story", about=about, last=last), json)


@app.command
def fault(
    *,
    loss: float | None = None,
    collisions: Annotated[bool | None, Parameter(negative="--no-collisions")] = None,
    cut: str | None = None,
    mute: str = "",
    unmute: str = "",
    move: tuple[str, ...] = (),
    heal: bool = False,
    scene: SceneName = "",
) -> int:
    """Disturb the air of a running scene; without options, say how it is disturbed.

      recado radio fault --loss 0.1
      recado radio fault --cut n1,n2,n5
      recado radio fault --mute n4 --move n3=120,40
      recado radio fault --heal

    Parameters
    ----------
    loss
        The probability that a frame is lost on its way to one hearer.
    collisions
        Whoever hears two frames at once understands neither; nodes listen before they speak.
    cut
        No frame passes between these nodes and the others; '' ends the partition.
    mute
        These nodes hear, and are not heard.
    unmute
        These are heard again.
    move
        NODE=X,Y: put a node somewhere else, in metres.
    heal
        End all of that first; nodes stay where they are.
    scene
        The scene.
    """
    from recado.radio.launch import open_scene

    fields: dict[str, Any] = {"heal": heal, "mute": _names(mute), "unmute": _names(unmute)}
    fields |= {"loss": loss} if loss is not None else {}
    fields |= {"collisions": collisions} if collisions is not None else {}
    fields |= {"cut": _names(cut)} if cut is not None else {}
    fields |= {"move": dict(map(_place, move))} if move else {}
    with open_scene(scene) as client:
        write_json(client.ask("medium", "fault", **fields)["faults"])
    return 0


@app.command
def gateway(
    *,
    node: str,
    service: str = "",
    type: tuple[str, ...] = (),
    every: Annotated[float, Parameter(validator=Number(gt=0))] = 2.0,
    scene: SceneName = "",
) -> int:
    """Join a node with an event service, until you press Ctrl-C.

    Subscriptions that anybody makes at the service, and that samples of the network can match, become subscriptions of
    the node, as few as cover them all. What they bring becomes events of the service, each once, with the node that
    published it and the hops that it came over as attributes: node and hops. Whichever side is started again, the
    gateway goes on.

    Parameters
    ----------
    node
        The node that is the sink.
    service
        The service, such as recado://gateway:TOKEN@localhost:7230; else RECADO_URL, the selected context, or the one on
        this machine. The token has to be an administrator's, since the gateway reads everybody's subscriptions.
    type
        An event type that the network publishes; may be repeated. Without it, the types of the scene file.
    every
        Look for new subscriptions so often, in seconds.
    scene
        The scene.
    """
    import asyncio
    import logging

    from recado.radio.gateway import Gateway
    from recado.radio.launch import read_started, scene_folder
    from recado.radio.scene import SceneError

    folder = scene_folder(scene)
    started = read_started(folder)
    if node not in started.places():
        raise SceneError(f"there is no node {node!r} in this scene; there are {', '.join(started.places())}")
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("recado.radio").setLevel(logging.INFO)
    state = folder / "state" / f"gateway-{node}.json"
    made = Gateway(folder / f"{node}.radio", service or None, type or started.types, state, every)
    asyncio.run(made.run())
    return 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _place(text: str) -> tuple[str, tuple[float, float]]:
    from recado.radio.scene import SceneError

    node, _, place = text.partition("=")
    try:
        x, y = map(float, place.split(","))
    except ValueError:
        raise SceneError(f"--move {text}: write NODE=X,Y in metres, such as n3=120,40") from None
    return node, (x, y)


def _client(node: str, scene: str) -> Any:
    from recado.overlay.client import NodeClient
    from recado.radio.launch import read_started, scene_folder
    from recado.radio.scene import SceneError

    folder = scene_folder(scene)
    names = read_started(folder).places()
    if node not in names:
        raise SceneError(f"there is no node {node!r} in this scene; there are {', '.join(names)}")
    return NodeClient(folder / f"{node}.radio")


# --- How nodes and the medium look on a terminal ---------------------------------------------------------------------


def _show_nodes(client: Any, json: bool) -> None:
    shown = client.ask_all("show")
    if not for_people(json):
        for name in client.nodes:
            write_json(shown.get(name, {"node": name, "process": None}))  # one that does not answer
        return
    numbers = ("process", "keeps", "routes", "sent", "delivered")
    table = _table("", "node", "role", "subscribed", *numbers, right=numbers)
    for name in client.nodes:
        node = shown.get(name)
        if node is None:
            table.add_row(name, "does not answer")
            continue
        machine = node["machine"]
        others = sum(not one["own"] for one in machine.get("data_zone", ()))
        subscribed = " ".join(machine.get("subscriptions", ()))
        figures = (others, len(machine.get("routes", ())), sum(node["sent"].values()), node["delivered"])
        table.add_row(name, machine.get("role", ""), subscribed, str(node["process"]), *(f"{n:,}" for n in figures))
    console().print(table)


def _node_view(shown: Mapping[str, Any]) -> Iterator[Any]:
    machine = shown["machine"]
    yield f"{shown['node']} of scene {shown['scene']}, {shown['protocol']}, process {shown['process']}"
    yield "; ".join(shown["roles"])
    zone = _table("keeps", "subscriber", "filter", "own", "distance", right=("distance",))
    for one in machine.get("data_zone", ()):
        zone.add_row(str(one["subscriber"]), one["filter"], "yes" if one["own"] else "", str(one["dist"]))
    routes = _table("routes", "to", "over", "hops", "state", right=("hops",))
    for one in machine.get("routes", ()):
        routes.add_row(str(one["dst"]), str(one["next_hop"]), str(one["hops"]), one["state"])
    yield from ("", zone, "", routes, "", _traffic(shown))
    yield from ("", facts_table("counters", machine.get("counters", {})))


def _medium_view(shown: Mapping[str, Any]) -> Iterator[Any]:
    yield f"the medium, process {shown['process']}, range {shown['range']:g} m"
    yield facts_table("faults", shown["faults"])
    yield from ("", facts_table("transmissions", shown["transmissions"]))
    yield from ("", facts_table("counts", shown["counts"]))
    places = _table("places", "node", "x", "y", right=("x", "y"))
    for node, (x, y) in shown["places"].items():
        places.add_row(node, f"{x:.1f}", f"{y:.1f}")
    yield from ("", places)


def _traffic(shown: Mapping[str, Any]) -> Table:
    names = ("sent", "received", "failed")
    table = _table("transmissions", "class", *names, right=names)
    for kind in sorted({kind for name in names for kind in shown[name]}):
        table.add_row(kind, *(f"{shown[name].get(kind, 0):,}" for name in names))
    return table


def _table(title: str, *columns: str, right: tuple[str, ...] = ()) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, title_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table
