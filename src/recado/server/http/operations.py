"""The table of everything that HTTP offers; the routes, the test of permissions and ``/openapi.json`` come from it.

An operation with a ``handler`` is done by it after the caller is known. Paths of the semantics document (3.8) are the
same operations without ``/v1``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from recado.server.http import routes as dead_letters
from recado.server.http import routes as events
from recado.server.http import routes as mailboxes
from recado.server.http import routes as replays
from recado.server.http import routes as service
from recado.server.http import routes as subscriptions
from recado.server.http.request import MOST, Call

Handler = Callable[[Call], Awaitable[Response]]

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_DEVICE = {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,128}$"}
_INSTANT = {"type": "string", "format": "date-time"}
_POSITION = {"type": "integer", "minimum": 0, "maximum": 10**17}
_COUNT = {"type": "integer", "minimum": 1, "maximum": 10**17}


class Body(msgspec.Struct, frozen=True):
    """What a request carries: a schema for each media type, by name or whole."""

    content: Mapping[str, str | dict[str, Any]]
    required: bool = True


class Operation(msgspec.Struct, frozen=True):
    """One method on one path. ``answers`` maps a status to the schema of its JSON, or to "" for no content."""

    method: str
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, str]
    query: Mapping[str, dict[str, Any]] = {}
    headers: Mapping[str, dict[str, Any]] = {}
    body: Body | None = None
    errors: tuple[int, ...] = ()
    alias: bool = False
    media: str = "application/json"

    @property
    def id(self) -> str:
        """The operation's name in OpenAPI."""
        return self.handler.__name__


def _json(schema: str) -> Body:
    return Body({"application/json": schema})


_EVENTS = Body(
    {
        "application/json": {
            "oneOf": [{"$ref": "#/components/schemas/Event"}, {"$ref": "#/components/schemas/Events"}]
        },
        "application/cloudevents+json": "CloudEvent",
        "application/cloudevents-batch+json": "CloudEvents",
        "application/x-ndjson": {"type": "string"},
    }
)
_USER = {"user": {"type": "string", "pattern": r"^([A-Za-z0-9._~:@+-]{1,256}|\*)$"}}
_ONE_DEVICE = {"device": _DEVICE}
_PAGE = {"limit": {"type": "integer", "minimum": 1, "maximum": MOST}, "after": _POSITION}

# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", "/v1/events", events.publish, "Publish one event or a batch", {202: "Published"},
        headers={"X-Publisher-Id": {"type": "string"}}, body=_EVENTS, errors=(403, 408, 413, 415), alias=True,
    ),
    Operation(
        "POST", "/v1/publishers", events.connect_publisher, "Get an id for a publisher", {201: "Publisher"},
        body=_json("NewPublisher"), errors=(408, 413, 415), alias=True,
    ),
    Operation(
        "POST", "/v1/subscriptions", subscriptions.subscribe, "Subscribe", {201: "Subscription"}, query=_ONE_DEVICE,
        body=_json("NewSubscription"), errors=(403, 408, 409, 413, 415), alias=True,
    ),
    Operation(
        "GET", "/v1/subscriptions", subscriptions.subscriptions, "List subscriptions", {200: "Subscriptions"},
        query=_USER, errors=(403,), alias=True,
    ),
    Operation(
        "DELETE", "/v1/subscriptions", subscriptions.discard, "Start anew: cancel all of a device",
        {200: "Cancelled"}, query=_ONE_DEVICE, errors=(403,), alias=True,
    ),
    Operation(
        "GET", "/v1/subscriptions/{id}", subscriptions.subscription, "Show a subscription", {200: "Subscription"},
        query=_USER, errors=(403, 404), alias=True,
    ),
    Operation(
        "PATCH", "/v1/subscriptions/{id}", subscriptions.renew, "Renew a subscription", {200: "Subscription"},
        body=_json("Renewal"), errors=(403, 404, 408, 409, 413, 415), alias=True,
    ),
    Operation(
        "DELETE", "/v1/subscriptions/{id}", subscriptions.cancel, "Cancel a subscription", {204: ""},
        query=_USER, errors=(403, 404), alias=True,
    ),
    Operation(
        "GET", "/v1/sessions", mailboxes.sessions, "List sessions", {200: "Sessions"}, query=_USER, errors=(403,)
    ),
    Operation(
        "GET", "/v1/sessions/{user}", mailboxes.session, "Show a user's sessions", {200: "Sessions"}, errors=(403, 404)
    ),
    Operation(
        "DELETE", "/v1/sessions/{user}", mailboxes.end_session, "End sessions of a user", {200: "Ended"},
        query=_ONE_DEVICE, errors=(403, 404),
    ),
    Operation(
        "GET", "/v1/mailboxes", mailboxes.mailboxes, "List mailboxes", {200: "Mailboxes"}, query=_USER, errors=(403,)
    ),
    Operation(
        "GET", "/v1/mailboxes/{user}", mailboxes.mailbox, "Show a user's mailboxes", {200: "Mailboxes"},
        errors=(403, 404),
    ),
    Operation(
        "GET", "/v1/mailboxes/{user}/notifications", mailboxes.peek, "Look at what waits", {200: "Taken"},
        query={**_PAGE, **_ONE_DEVICE}, errors=(403, 404),
    ),
    Operation(
        "DELETE", "/v1/mailboxes/{user}/notifications", mailboxes.purge, "Throw away what waits", {200: "Purged"},
        query=_ONE_DEVICE, errors=(403, 404),
    ),
    Operation(
        "POST", "/v1/mailboxes/{user}/take", mailboxes.take, "Take what waits, or wait for it (long poll)",
        {200: "Taken"}, body=_json("Take"), errors=(403, 404, 408, 409, 413, 415),
    ),
    Operation(
        "POST", "/v1/mailboxes/{user}/ack", mailboxes.acknowledge, "Acknowledge what was taken", {204: ""},
        body=_json("Acknowledgement"), errors=(403, 404, 408, 409, 413, 415),
    ),
    Operation(
        "GET", "/v1/replay", replays.replay, "Events of the log, an event a line", {200: "Replayed"},
        query={
            "filter": _TEXT, "syntax": {"enum": ["auto", "expression", "template", "braces", "cesql"]}, "type": _TEXT,
            "semantic": _TEXT, "position": _POSITION, "since": _INSTANT, "limit": _COUNT,
        },
        errors=(403,), media="application/x-ndjson",
    ),
    Operation(
        "POST", "/v1/replay", replays.replay_through, "The same through a subscription in the body",
        {200: "Replayed"}, body=_json("Replay"), errors=(403, 408, 413, 415), media="application/x-ndjson",
    ),
    Operation(
        "GET", "/v1/dead-letters", dead_letters.dead_letters, "Notifications that a webhook did not take",
        {200: "DeadLetters"}, query={**_USER, **_PAGE}, errors=(403,),
    ),
    Operation(
        "DELETE", "/v1/dead-letters", dead_letters.purge_dead_letters, "Forget all dead letters", {200: "Purged"},
        query=_USER, errors=(403,),
    ),
    Operation(
        "DELETE", "/v1/dead-letters/{number}", dead_letters.forget_dead_letter, "Forget a dead letter", {204: ""},
        errors=(403, 404),
    ),
    Operation(
        "POST", "/v1/dead-letters/{number}/retry", dead_letters.retry_dead_letter, "Send a dead letter again",
        {202: "Retried"}, errors=(403, 404, 409),
    ),
    Operation("GET", "/v1/status", service.status, "What the service is doing", {200: "Status"}, errors=(403,)),
    Operation(
        "GET", "/metrics", service.metrics, "Figures for Prometheus", {200: ""}, errors=(403,), media="text/plain"
    ),
)
# fmt: on
