"""The group ``recado node`` and its verbs; without a verb it runs a node."""

from __future__ import annotations

import secrets
import socket
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from recado.cli.output import complain, console, for_people, plural, write_json, write_line
from recado.cli.verb import Source, import_from_here, verb

if TYPE_CHECKING:
    from recado.overlay.addresses import Tls
    from recado.overlay.client import NodeClient


# --- ``recado node run``: one node in this process -------------------------------------------------------------------


def run(
    *,
    listen: str = "127.0.0.1:0",
    peer: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    name: str = "",
    overlay: str = "recado",
    protocol: str = "",
    state: Path | None = None,
    key_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    tls_ca: Path | None = None,
    setting: tuple[str, ...] = (),
    advertise: str = "",
) -> int:
    """Run a node until it is stopped (Ctrl-C, SIGTERM, or recado node stop).

    What happens to the node is told on stderr. Without a shared key, or TLS with an authority, it listens on loopback
    only.

    Parameters
    ----------
    listen
        HOST:PORT; with port 0 the system chooses one.
    peer
        HOST:PORT of nodes to have links to; they are dialled again whenever the link is lost. With a protocol whose
        nodes speak to anyone: of nodes that are asked to let this one in; without any, it begins an overlay of its own.
    name
        The node's name, unique in its overlay. Without one, the host's name and the port.
    overlay
        The name of the overlay; nodes of others are refused.
    protocol
        The protocol of all nodes of the overlay, by its name, or your own as module:Class; docs/overlay.md lists them.
    state
        A folder for what must outlive the process; without it a restarted node begins anew.
    key_file
        A file with the key that all nodes of the overlay share, at least 16 bytes.
    tls_cert
        This node's certificate, in PEM form.
    tls_key
        The certificate's private key.
    tls_ca
        The authority that signed the peers' certificates.
    setting
        A setting of the protocol as NAME=VALUE, such as causal=true or buffer=100; may be repeated.
    advertise
        HOST:PORT where nodes that choose their links (attract) may dial this one, if it is not where it listens.
    """
    import asyncio

    from recado.overlay.addresses import read_key, socket_path
    from recado.overlay.launch import log_to_stderr, run_nodes
    from recado.overlay.node import Node
    from recado.protocols.registry import DEFAULT

    log_to_stderr()
    import_from_here()
    name = name or _default_name(listen)
    node = Node(
        name,
        listen=listen,
        peers=peer,
        overlay=overlay,
        protocol=protocol or DEFAULT,
        settings=_settings(setting),
        key=read_key(key_file) if key_file else b"",
        tls=_tls(tls_cert, tls_key, tls_ca),
        state=state,
        advertise=advertise,
    )
    return asyncio.run(run_nodes([(node, socket_path(overlay, name))]))


def _default_name(listen: str) -> str:
    host = socket.gethostname().split(".")[0] or "node"
    port = listen.rpartition(":")[2]
    return f"{host}-{secrets.token_hex(3) if port == '0' else port}"


def _settings(words: tuple[str, ...]) -> dict[str, Any]:
    """``causal=true buffer=100 mpp=stream``: values are JSON where that can be read, else texts."""
    import msgspec

    from recado.overlay.limits import OverlayError

    settings: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise OverlayError(f"--setting {word}: write NAME=VALUE, such as causal=true")
        try:
            settings[name.replace("-", "_")] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            settings[name.replace("-", "_")] = value
    return settings


def _tls(cert: Path | None, key: Path | None, ca: Path | None) -> Tls | None:
    from recado.overlay.addresses import Tls
    from recado.overlay.limits import OverlayError

    if cert is None and key is None and ca is None:
        return None
    if cert is None or key is None:
        raise OverlayError("TLS needs --tls-cert and --tls-key together; --tls-ca asks the peers for certificates, too")
    return Tls(cert, key, ca)


# --- Which node a verb is for, and how it is asked -------------------------------------------------------------------


NodeName = Annotated[str, Parameter(name=["--node", "-n"])]
"""``NODE`` or ``OVERLAY/NODE``; empty for the only one that runs."""


def ask_node(node: str, do: str, **fields: Any) -> Any:
    from recado.overlay.addresses import find_node
    from recado.overlay.client import ask

    return ask(find_node(node), do, **fields)


# --- Publish and subscribe at a running node -------------------------------------------------------------------------


Count = Annotated[int, Parameter(validator=Number(gte=0))]


def publish(event: Source, /, *, node: NodeName = "") -> int:
    """Publish an event at a node that publishes its type (see become-publisher).

    Parameters
    ----------
    event
        A JSON object, flat or a CloudEvent, or - for one a line on standard input. One without an id gets one.
    node
        The node to use.
    """
    from recado.overlay.addresses import find_node
    from recado.overlay.client import NodeClient

    with closing(NodeClient(find_node(node))) as client:
        if event == "-":
            _publish_lines(client)
        else:
            write_line(_publish(client, event))
    return 0


def _publish(client: NodeClient, text: str) -> str:
    """Publish one event; its id."""
    from recado.model.codec import read_event
    from recado.model.flat import to_flat

    record = to_flat(read_event(text, default_id=f"e-{secrets.token_hex(8)}"))
    client.ask("publish", event=record)
    return str(record["id"])


def _publish_lines(client: NodeClient) -> None:
    """Events from standard input up to the first that cannot be published, which is told by its line."""
    from recado.errors import RecadoError
    from recado.overlay.limits import OverlayError

    count = 0
    for number, line in enumerate(sys.stdin, 1):
        if not line.strip():
            continue
        try:
            _publish(client, line)
        except RecadoError as error:
            raise OverlayError(f"line {number}: {error}; {plural(count, 'event')} before it published") from None
        count += 1
    complain(f"published {plural(count, 'event')}")


def subscribe(
    filter: str = "",
    /,
    *,
    type: str = "",
    id: str = "",
    keep: bool = False,
    detach: bool = False,
    count: Count = 0,
    json: bool = False,
    node: NodeName = "",
) -> int:
    """Subscribe at a node, and show what comes until you press Ctrl-C.

    Parameters
    ----------
    filter
        What the events must be like, such as 'Price < 25'; without it, every event of the type.
    type
        The type of event.
    id
        A name for the subscription, unique in the overlay; without it, one is drawn.
    keep
        Leave the subscription in place at the end; see follow and unsubscribe.
    detach
        Only make the subscription, and keep it; see follow and unsubscribe.
    count
        End after so many notifications.
    json
        Write NDJSON even on a terminal.
    node
        The node to use.
    """
    from recado.cli.overlay import show_items
    from recado.overlay.addresses import find_node
    from recado.overlay.client import NodeClient

    record: dict[str, Any] = {"id": id or f"s-{secrets.token_hex(8)}"}
    record |= {"filter": filter} if filter else {}
    record |= {"type": type} if type else {}
    with closing(NodeClient(find_node(node))) as client:
        client.ask("subscribe", subscription=record, keep=keep, follow=not detach)
        complain(f"subscribed as {record['id']}")
        if not detach:
            show_items(client.stream(), count, for_people(json))
    return 0


def follow(id: str, /, *, count: Count = 0, json: bool = False, node: NodeName = "") -> int:
    """Show what a kept subscription brings, and brought while nobody followed it.

    Parameters
    ----------
    id
        The subscription.
    count
        End after so many notifications.
    json
        Write NDJSON even on a terminal.
    node
        The node that subscribed.
    """
    from recado.cli.overlay import show_items
    from recado.overlay.addresses import find_node
    from recado.overlay.client import NodeClient

    with closing(NodeClient(find_node(node))) as client:
        client.ask("follow", id=id)
        show_items(client.stream(), count, for_people(json))
    return 0


def unsubscribe(id: str, /, *, node: NodeName = "") -> int:
    """End a subscription of a node.

    Parameters
    ----------
    id
        The subscription.
    node
        The node that subscribed.
    """
    ask_node(node, "unsubscribe", id=id)
    return 0


# --- Look at a running node ------------------------------------------------------------------------------------------


def show(subscription: str = "", /, *, json: bool = False, node: NodeName = "") -> int:
    """Show a node: roles, what its protocol tells of it, links, routing tables, counters, and its trees.

    Parameters
    ----------
    subscription
        Only the tree of this subscription, gathered from all nodes of the overlay on this machine.
    json
        Write JSON even on a terminal.
    node
        The node to show.
    """
    from recado.cli.overlay import node_view, tree_view
    from recado.overlay.addresses import find_node, running_nodes
    from recado.overlay.client import OverlayClient, is_branch

    path = find_node(node)
    with OverlayClient(running_nodes(path.parent.name)) as client:
        if subscription:
            rows = client.rows(subscription)
            shown: Any = {"subscription": subscription, "rows": rows}
            view: list[Any] = [tree_view(subscription, rows)]
        else:
            shown = client.ask(path.stem, "show")
            tables = shown["machine"].get("tables", {}).values()
            trees = {name: client.rows(name) for rows in tables for name, row in rows.items() if is_branch(row)}
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
    from recado.cli.overlay import show_story

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
    from recado.cli.overlay import links_table

    links = ask_node(node, "show")["links"]
    if for_people(json):
        console().print(links_table(links))
        return 0
    for peer, link in links.items():
        write_json({"peer": peer, **link})
    return 0


# --- Change a running node: its roles, its links, its life -----------------------------------------------------------


def become_publisher(type: str, /, *, node: NodeName = "") -> int:
    """Let a node publish events of a type.

    Parameters
    ----------
    type
        The type of event.
    node
        The node to use.
    """
    ask_node(node, "become-publisher", type=type)
    return 0


def become_broker(type: str, /, *, node: NodeName = "") -> int:
    """Let a node stop publishing a type; it still relays.

    Parameters
    ----------
    type
        The type of event.
    node
        The node to use.
    """
    ask_node(node, "become-broker", type=type)
    return 0


def become_candidate(type: str, /, *, node: NodeName = "") -> int:
    """Let a node stand by for a type: it publishes it when no publisher is left (needs the setting elect).

    Parameters
    ----------
    type
        The type of event.
    node
        The node to use.
    """
    ask_node(node, "become-candidate", type=type)
    return 0


def connect(address: str, /, *, node: NodeName = "") -> int:
    """Let a running node have a link to another one, or know of it.

    Parameters
    ----------
    address
        HOST:PORT of the other node.
    node
        The node that dials.
    """
    ask_node(node, "connect", address=address)
    return 0


def stop(*, node: NodeName = "") -> int:
    """Stop a running node: it sends what is queued and says good-bye.

    Parameters
    ----------
    node
        The node to stop.
    """
    ask_node(node, "stop")
    return 0


_HELP = """\
Three nodes, in three terminals:

  recado node run --name ana   --listen 127.0.0.1:7701
  recado node run --name bruno --listen 127.0.0.1:7702 --peer 127.0.0.1:7701
  recado node run --name carla --listen 127.0.0.1:7703 --peer 127.0.0.1:7702

And in a fourth:

  recado node subscribe --node ana 'Price < 25' --type Tick
  recado node become-publisher --node carla Tick
  recado node publish --node carla '{"type": "Tick", "Stock": "PETR4", "Price": 24.9}'
  recado node show --node bruno

--node names a node that runs on this machine, as NODE or OVERLAY/NODE; with only one running, it may be left out.
"""

app = verb("node", epilogue=_HELP)
app.default(run)
app.command(run)
app.command(publish, name="publish", help="Publish an event at a node.")
app.command(subscribe, name="subscribe", help="Subscribe at a node, and show what comes.")
app.command(follow, name="follow", help="Show what a kept subscription brings.")
app.command(unsubscribe, name="unsubscribe", help="End a subscription.")
app.command(become_publisher, name="become-publisher", help="Let a node publish a type.")
app.command(become_broker, name="become-broker", help="Let a node stop publishing a type.")
app.command(become_candidate, name="become-candidate", help="Let a node stand by for a type.")
app.command(connect, name="connect", help="Let a node have a link to another one.")
app.command(stop, name="stop", help="Stop a node.")
app.command(show, name="show", help="Show roles, links, tables, counters and trees of a node.")
app.command(story, name="story", help="Tell what a node did lately, and why.")
app.command(peers, name="peers", help="List the links of a node.")
