"""Publish and subscribe at a running node."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from recado.cli.node.which import NodeName, ask_node
from recado.cli.output import complain, console, for_people, plural, write_json, write_line
from recado.cli.verb import Source

if TYPE_CHECKING:
    from recado.overlay.client import NodeClient

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
    from recado.overlay.client import NodeClient
    from recado.overlay.names import find_node

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
    from recado.overlay.errors import OverlayError

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
    from recado.overlay.client import NodeClient
    from recado.overlay.names import find_node

    record: dict[str, Any] = {"id": id or f"s-{secrets.token_hex(8)}"}
    record |= {"filter": filter} if filter else {}
    record |= {"type": type} if type else {}
    with closing(NodeClient(find_node(node))) as client:
        client.ask("subscribe", subscription=record, keep=keep, follow=not detach)
        complain(f"subscribed as {record['id']}")
        if not detach:
            _follow(client.stream(), count, for_people(json))
    return 0


def _follow(items: Iterator[dict[str, Any]], count: int, people: bool) -> None:
    out = console()
    for item in items:
        if people:
            from recado.cli.overlay_views import item_line

            out.print(item_line(item), soft_wrap=True)
        else:
            write_json(item)
            sys.stdout.flush()
        count -= "event" in item
        if count == 0 and "event" in item:
            return


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
    from recado.overlay.client import NodeClient
    from recado.overlay.names import find_node

    with closing(NodeClient(find_node(node))) as client:
        client.ask("follow", id=id)
        _follow(client.stream(), count, for_people(json))
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
