"""The table of everything that HTTP offers; the routes, the test of permissions and ``/openapi.json`` come from it.

An operation with a ``handler`` is done by it after the caller is known. Paths of the semantics document (3.8) are the
same operations without ``/v1``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from recado.server.http import routes
from recado.server.http.request import Call
from recado.server.listing import MOST

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
        "*/*": {"description": "binary mode: the event's data, with its context in ce- headers"},
    },
    required=False,  # in binary mode an event may have no data
)
_CONTEXT: dict[str, dict[str, Any]] = {
    "ce-specversion": {"const": "1.0", "description": "binary mode of CloudEvents: the body is the event's data"},
    "ce-id": _TEXT,
    "ce-source": _TEXT,
    "ce-type": _TEXT,
    "ce-time": _INSTANT,
    "ce-subject": _TEXT,
}
"""Of an event in binary mode; extensions are further headers that begin with ``ce-``."""
_TRACE: dict[str, dict[str, Any]] = {
    "traceparent": {"type": "string", "description": "W3C Trace Context, for events that have no traceparent"},
    "tracestate": {"type": "string"},
}
_USER = {"user": {"type": "string", "pattern": r"^([A-Za-z0-9._~:@+-]{1,256}|\*)$"}}
_USERS = {
    "user": {
        "type": "string", "pattern": r"^([A-Za-z0-9._~:@+-]{1,256}|[A-Za-z0-9._~:@+-]{0,256}\*)$",
        "description": "whose; with * at its end, of all users whose names begin so",
    }
}  # fmt: skip
_ONE_DEVICE = {"device": _DEVICE}
_FLAG = {"type": "boolean"}
_CURSOR = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": MOST},
    "after": {"type": "string", "minLength": 1, "description": "next of the page before"},
    "prefix": {"type": "string", "minLength": 1, "description": "only entries whose names (id, device) begin so"},
}
_PAGE = {
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": 100},
    "after": _POSITION,
    "prefix": {"type": "string", "minLength": 1, "description": "only those of subscriptions whose ids begin so"},
}

# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST", "/v1/events", routes.publish, "Publish one event or a batch", {202: "Published"},
        headers={"X-Publisher-Id": {"type": "string"}, **_TRACE, **_CONTEXT}, body=_EVENTS, errors=(403, 408, 413, 415),
        alias=True,
    ),
    Operation(
        "POST", "/v1/publishers", routes.connect_publisher, "Get an id for a publisher", {201: "Publisher"},
        body=_json("NewPublisher"), errors=(408, 413, 415), alias=True,
    ),
    Operation(
        "POST", "/v1/subscriptions", routes.subscribe, "Subscribe", {201: "Subscription"}, query=_ONE_DEVICE,
        body=_json("NewSubscription"), errors=(403, 408, 409, 413, 415), alias=True,
    ),
    Operation(
        "GET", "/v1/subscriptions", routes.subscriptions, "List subscriptions", {200: "Subscriptions"},
        query={**_USERS, **_CURSOR}, errors=(403,), alias=True,
    ),
    Operation(
        "DELETE", "/v1/subscriptions", routes.discard, "Start anew: cancel all of a device",
        {200: "Cancelled"}, query=_ONE_DEVICE, errors=(403,), alias=True,
    ),
    Operation(
        "GET", "/v1/subscriptions/{id}", routes.subscription, "Show a subscription", {200: "Subscription"},
        query=_USER, errors=(403, 404), alias=True,
    ),
    Operation(
        "PATCH", "/v1/subscriptions/{id}", routes.renew, "Renew a subscription", {200: "Subscription"},
        body=_json("Renewal"), errors=(403, 404, 408, 409, 413, 415), alias=True,
    ),
    Operation(
        "DELETE", "/v1/subscriptions/{id}", routes.cancel, "Cancel a subscription", {204: ""},
        query=_USER, errors=(403, 404), alias=True,
    ),
    Operation(
        "GET", "/v1/sessions", routes.sessions, "List sessions", {200: "Sessions"},
        query={**_USERS, **_CURSOR}, errors=(403,),
    ),
    Operation(
        "GET", "/v1/sessions/{user}", routes.session, "Show a user's sessions", {200: "Sessions"},
        query=_CURSOR, errors=(403, 404),
    ),
    Operation(
        "DELETE", "/v1/sessions/{user}", routes.end_session, "End sessions of a user", {200: "Ended"},
        query={**_ONE_DEVICE, "forget": _FLAG}, errors=(403, 404),
    ),
    Operation(
        "GET", "/v1/mailboxes", routes.mailboxes, "List mailboxes", {200: "Mailboxes"},
        query={**_USERS, **_CURSOR}, errors=(403,),
    ),
    Operation(
        "GET", "/v1/mailboxes/{user}", routes.mailbox, "Show a user's mailboxes", {200: "Mailboxes"},
        query=_CURSOR, errors=(403, 404),
    ),
    Operation(
        "GET", "/v1/mailboxes/{user}/notifications", routes.peek, "Look at what waits", {200: "Taken"},
        query={**_PAGE, **_ONE_DEVICE}, errors=(403, 404),
    ),
    Operation(
        "DELETE", "/v1/mailboxes/{user}/notifications", routes.purge, "Throw away what waits", {200: "Purged"},
        query=_ONE_DEVICE, errors=(403, 404),
    ),
    Operation(
        "POST", "/v1/mailboxes/{user}/take", routes.take, "Take what waits, or wait for it (long poll)",
        {200: "Taken"}, body=_json("Take"), errors=(403, 404, 408, 409, 413, 415),
    ),
    Operation(
        "POST", "/v1/mailboxes/{user}/ack", routes.acknowledge, "Acknowledge what was taken", {204: ""},
        body=_json("Acknowledgement"), errors=(403, 404, 408, 409, 413, 415),
    ),
    Operation(
        "GET", "/v1/replay", routes.replay, "Events of the log, an event a line", {200: "Replayed"},
        query={
            "filter": _TEXT, "syntax": {"enum": ["auto", "expression", "template", "braces", "cesql"]}, "type": _TEXT,
            "semantic": _TEXT, "position": _POSITION, "since": _INSTANT, "limit": _COUNT,
        },
        errors=(403,), media="application/x-ndjson",
    ),
    Operation(
        "POST", "/v1/replay", routes.replay_through, "The same through a subscription in the body",
        {200: "Replayed"}, body=_json("Replay"), errors=(403, 408, 413, 415), media="application/x-ndjson",
    ),
    Operation(
        "GET", "/v1/dead-letters", routes.dead_letters, "Notifications that a webhook did not take",
        {200: "DeadLetters"}, query={**_USER, **_PAGE}, errors=(403,),
    ),
    Operation(
        "DELETE", "/v1/dead-letters", routes.purge_dead_letters, "Forget all dead letters", {200: "Purged"},
        query=_USER, errors=(403,),
    ),
    Operation(
        "DELETE", "/v1/dead-letters/{number}", routes.forget_dead_letter, "Forget a dead letter", {204: ""},
        errors=(403, 404),
    ),
    Operation(
        "POST", "/v1/dead-letters/{number}/retry", routes.retry_dead_letter, "Send a dead letter again",
        {202: "Retried"}, errors=(403, 404, 409),
    ),
    Operation(
        "GET", "/v1/lag", routes.lag, "Where notifications wait for longest", {200: "Lag"},
        query={**_USER, "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10}}, errors=(403,),
    ),
    Operation("GET", "/v1/status", routes.status, "What the service is doing", {200: "Status"}, errors=(403,)),
    Operation(
        "GET", "/metrics", routes.metrics, "Figures for Prometheus", {200: ""}, errors=(403,), media="text/plain"
    ),
)
# fmt: on
