"""``/openapi.json``: the document of the HTTP interface, made from the table of operations, so that it cannot lie."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from recado.model.limits import LIMITS
from recado.server.http.operations import OPERATIONS, Body, Operation
from recado.version import __version__

# --- The schemas of ``/openapi.json``: what requests and answers hold ------------------------------------------------


_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_INSTANT = {"type": "string", "format": "date-time"}
_DEVICE = {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,128}$"}
_SECONDS = {"type": "number", "minimum": 0}
_NID = {"type": "integer", "minimum": 0, "maximum": 2**53}
_NEXT = {**_NID, "description": "there if more is left: give it as after to go on"}


_CURSOR = {"type": "string", "description": "there if more may be left: give it as after to go on"}


def _object(required: tuple[str, ...] = (), *, closed: bool = False, **members: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": members}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(of: str) -> dict[str, Any]:
    return {"type": "array", "items": _ref(of)}


_WHEN = {"enum": ["always", "disconnected"], "description": "whether it holds always, or only while the owner is away"}
_CLOCK = {"type": "string", "examples": ["16:00"], "pattern": r"^\d\d:\d\d(:\d\d(\.\d{1,6})?)?$"}
_ZONE = {"type": "string", "examples": ["America/Sao_Paulo"]}
_CONTEXT = {  # of a CloudEvent, beside its extensions
    "specversion": {"const": "1.0"},
    "id": {"type": "string", "minLength": 1},
    "source": {"type": "string", "minLength": 1},
    "type": {"type": "string", "minLength": 1},
    "time": _INSTANT,
    "subject": {"type": "string", "minLength": 1},
    "datacontenttype": {"type": "string", "minLength": 1},
    "dataschema": {"type": "string", "minLength": 1},
}


_SUBSCRIPTION: dict[str, Any] = {
    "id": {"type": ["string", "integer"]},
    "filter": {"type": "string", "examples": ["Price < 25"], "description": "in any of the filter syntaxes"},
    "filters": {"type": "array", "items": {"type": "object"}, "description": "CloudEvents Subscriptions API"},
    "syntax": {"type": "string"},
    "type": {"type": "string", "description": "an event type, or a pattern with * and ?"},
    "expires_at": _INSTANT,
    "constraints": {"type": "array", "items": _ref("Constraint"), "maxItems": LIMITS.constraints},
    "semantic": {"type": "object"},
    "scope": {"enum": ["all", "this device"]},
    "webhook": _ref("Webhook"),
}

# fmt: off
SCHEMAS: dict[str, Any] = {
    "Problem": _object(
        ("type", "title", "status", "detail"),
        type=_TEXT, title=_TEXT, status={"type": "integer"}, detail=_TEXT, instance=_TEXT, place=_TEXT,
    ),
    "Event": {
        "type": "object",
        "description": "the flat form, or a CloudEvent if it has specversion; other members are attributes",
        "properties": {"id": {"type": ["string", "integer"]}, "type": _TEXT, "source": _TEXT, "time": _INSTANT},
        "examples": [{"id": "e-1", "type": "Tick", "Stock": "PETR4", "Price": 24.9}],
    },
    "Events": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Event"}},
    "CloudEvent": {
        "type": "object",
        "required": ["specversion", "id", "source", "type"],
        "properties": {
            **_CONTEXT,
            "data": {"description": "any JSON value; the members of an object are attributes of the event"},
            "data_base64": {"type": "string", "contentEncoding": "base64"},
        },
        "additionalProperties": {
            "type": ["string", "integer", "boolean"], "description": "an extension attribute of the context"
        },
        "examples": [{
            "specversion": "1.0", "id": "e-1", "source": "/exchange", "type": "Tick",
            "datacontenttype": "application/json", "data": {"Stock": "PETR4", "Price": 24.9},
        }],
    },
    "CloudEvents": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/CloudEvent"}},
    "Published": {
        "oneOf": [
            _object(("id", "position", "notificationId"), id=_TEXT, position=_COUNT, notificationId=_TEXT),
            _object(
                ("count", "positions", "ids"), count=_COUNT, positions={"type": "array", "items": _COUNT},
                ids={"type": "array", "items": _TEXT},
            ),
        ]
    },
    "NewPublisher": _object(("name",), closed=True, name={"type": "string", "minLength": 1}),
    "Publisher": _object(("publisherId", "name"), publisherId=_TEXT, name=_TEXT),
    "Webhook": _object(
        ("url",), closed=True,
        url={"type": "string", "format": "uri"}, secret=_TEXT, format={"enum": ["flat", "cloudevent"]},
    ),
    "Frequency": _object(
        ("kind", "amount", "unit"), closed=True,
        kind={"const": "frequency"}, amount={"type": "integer", "minimum": 1},
        unit={"enum": ["seconds", "minutes", "hours", "days"]}, when=_WHEN,
    ),
    "Absolute": _object(
        ("kind", "from", "to"), closed=True,
        kind={"const": "absolute"}, tz=_ZONE, when=_WHEN,
        **{"from": {"type": "string", "description": "an instant, or a local time of tz"}, "to": _TEXT},
    ),
    "Daily": _object(
        ("kind", "from", "to"), closed=True,
        kind={"const": "daily"}, tz=_ZONE, when=_WHEN,
        weekdays={
            "type": "array", "items": {"enum": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]},
            "minItems": 1, "uniqueItems": True,
        },
        **{"from": _CLOCK, "to": _CLOCK},
    ),
    "Constraint": {
        "oneOf": [_ref("Frequency"), _ref("Absolute"), _ref("Daily")],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {
                kind.lower(): f"#/components/schemas/{kind}" for kind in ("Frequency", "Absolute", "Daily")
            },
        },
    },
    "NewSubscription": _object(
        closed=True, **_SUBSCRIPTION,
        ttl={"type": "number", "exclusiveMinimum": 0},
        subscription={"type": "string", "description": "another name of filter"},
        callback={"type": "string", "format": "uri", "description": "another name of webhook.url"},
    ),
    "Subscription": _object(("id", "expires_at", "scope"), **_SUBSCRIPTION, device=_TEXT, user=_TEXT),
    "Subscriptions": _object(("subscriptions",), subscriptions=_list("Subscription"), next=_CURSOR),
    "Renewal": _object(closed=True, ttl={"type": ["number", "null"]}, expires_at={"type": ["string", "null"]}),
    "Cancelled": _object(("cancelled",), cancelled=_COUNT),
    "Session": _object(
        ("user", "device", "connected", "at"),
        user=_TEXT, device=_TEXT, connected={"type": "boolean"}, at=_INSTANT, kind=_TEXT, address=_TEXT,
        window=_COUNT, unacknowledged=_COUNT, redelivered=_COUNT,
    ),
    "Sessions": _object(("sessions",), sessions=_list("Session"), next=_CURSOR),
    "Ended": _object(("ended",), ended=_COUNT),
    "Mailbox": _object(
        ("user", "device", "length", "bytes", "lag_seconds", "consumers"),
        user=_TEXT, device=_TEXT, length=_COUNT, bytes=_COUNT, oldest={"type": ["string", "null"]},
        delivered=_COUNT, delivered_late=_COUNT, dropped={"type": "object"}, notices=_COUNT,
        lag_seconds={**_SECONDS, "description": "for how long the oldest has waited; 0 if nothing waits"},
        consumers=_list("Consumer"),
    ),
    "Consumer": _object(
        ("device", "kind", "window", "in_flight", "redelivered"),
        device=_TEXT, kind={"type": "string", "examples": ["websocket", "rudp", "poll", "webhook"]},
        window={**_COUNT, "description": "how many it may have before it acknowledges some"},
        in_flight={**_COUNT, "description": "how many it has and has not acknowledged"},
        redelivered={**_COUNT, "description": "of what it got since it connected, how many it had before"},
    ),
    "Lag": _object(
        ("slowest",), closed=True,
        classes=_object(
            ("connected", "away", "webhook"), closed=True,
            connected=_ref("LagOfClass"), away=_ref("LagOfClass"), webhook=_ref("LagOfClass"),
        ),
        slowest=_list("Mailbox"),
    ),
    "LagOfClass": _object(("notifications", "seconds"), closed=True, notifications=_COUNT, seconds=_SECONDS),
    "Mailboxes": _object(("mailboxes",), mailboxes=_list("Mailbox"), next=_CURSOR),
    "Take": _object(
        closed=True,
        device=_DEVICE, limit={"type": "integer", "minimum": 1, "maximum": 1000},
        wait={"type": "number", "minimum": 0, "description": "seconds, up to limits.poll_seconds"},
        upto={"type": ["integer", "null"], "description": "acknowledges the answer before this one"},
        notices={"type": "array", "items": {"type": "integer"}},
    ),
    "Acknowledgement": _object(
        closed=True,
        device=_DEVICE, upto={"type": ["integer", "null"]}, notices={"type": "array", "items": {"type": "integer"}},
    ),
    "Notification": _object(
        ("type", "nid", "sub_id", "event", "generated_at"),
        type={"const": "NOTIFY"}, nid=_NID, sub_id=_TEXT, event={"type": "object"}, generated_at=_INSTANT,
        queued={"type": "boolean"}, why={"type": "object"},
    ),
    "Taken": _object(
        ("notifications", "notices"),
        notifications=_list("Notification"), notices=_list("Notice"), next=_NEXT,
    ),
    "Gap": _object(
        ("type", "notice", "count", "nids", "reason"),
        type={"const": "GAP"}, notice=_COUNT, count=_COUNT, nids={"type": "array", "items": _NID},
        reason={"enum": ["full", "age", "purged", "damaged", "budget"]},
    ),
    "SubscriptionCancelled": _object(
        ("type", "notice", "sub_ids", "reason"),
        type={"const": "SUB_CANCELLED"}, notice=_COUNT, sub_ids={"type": "array", "items": _TEXT},
        reason={"type": "string", "examples": ["expired", "cancelled", "webhook gone"]},
    ),
    "Notice": {"oneOf": [_ref("Gap"), _ref("SubscriptionCancelled")]},
    "Purged": _object(("purged",), purged=_COUNT),
    "Replay": _object(
        closed=True,
        sub={"type": "object", "description": "filter, filters, syntax and type of a subscription"},
        position={"type": ["integer", "null"], "minimum": 0}, since={"type": ["string", "null"]},
        limit={"type": ["integer", "null"], "minimum": 1},
    ),
    "Replayed": {
        "type": "string",
        "description": 'a line for each event, {"position": 7, "event": {...}}, then for damage, {"damage": "..."}',
    },
    "DeadLetter": _object(
        ("number", "user", "sub_id", "nid", "url", "event", "reason", "at", "attempts"),
        number=_COUNT, user=_TEXT, sub_id=_TEXT, nid=_NID, url=_TEXT, event={"type": "object"}, reason=_TEXT,
        at=_INSTANT, attempts=_COUNT,
    ),
    "DeadLetters": _object(("dead_letters",), dead_letters=_list("DeadLetter"), next=_NEXT),
    "Retried": _object(("number", "retried"), number=_COUNT, retried={"type": "boolean"}),
    "Status": _object(
        (
            "ready", "loaded", "kernels", "first", "end", "dispatched", "subscriptions", "users", "sessions",
            "waiting", "waiting_bytes", "in_flight", "redelivered", "faults", "over_budget", "damage", "trouble",
        ),
        closed=True,
        ready={"type": "boolean", "description": "publications and subscriptions are accepted"},
        loaded={"type": "boolean", "description": "what was stored is loaded"},
        kernels={"type": "boolean", "description": "the compiled index is in use"},
        first={**_COUNT, "description": "position of the oldest event that is kept"},
        end={**_COUNT, "description": "position that the next event gets"},
        dispatched={**_COUNT, "description": "position up to which events were matched and given to mailboxes"},
        subscriptions=_COUNT, users=_COUNT, sessions=_COUNT,
        waiting={**_COUNT, "description": "notifications in all mailboxes"}, waiting_bytes=_COUNT,
        in_flight={**_COUNT, "description": "notifications that consumers have and have not acknowledged"},
        redelivered={**_COUNT, "description": "notifications given a second time or more often"},
        faults={**_COUNT, "description": "unexpected errors inside the service"},
        over_budget={**_COUNT, "description": "users whose filters have used up their share of matching time"},
        damage={"type": "array", "items": _TEXT, "description": "what of the files could not be used"},
        trouble={"type": "array", "items": _TEXT, "description": "what needs somebody's attention"},
    ),
    "Health": _object(("status",), closed=True, status={"const": "ok"}),
    "Readiness": _object(
        ("status",), closed=True, status={"enum": ["ready", "starting", "loading", "trouble", "draining"]},
    ),
}
# fmt: on


# --- ``/openapi.json``: the document of the HTTP interface, made from the table of operations, so that it cannot lie

_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_ALWAYS = (400, 401, 403, 405, 429, 431, 503)
"""405 tells other methods of the path; 431 is a head that is too large."""
_AGAIN = {"description": "when to ask again, in seconds", "schema": {"type": "integer", "minimum": 1}}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"schema": _TEXT}},
    405: {"Allow": {"description": "the methods that there are", "schema": _TEXT}},
    429: {"Retry-After": _AGAIN},
    503: {"Retry-After": _AGAIN},
}
_SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "of recado token add"},
    "user": {
        "type": "apiKey", "in": "header", "name": "X-Recado-User",
        "description": "the user's name, on a loopback listener that believes its callers (access.anonymous)",
    },
    "user_in_query": {"type": "apiKey", "in": "query", "name": "user", "description": "the same in the query"},
}  # fmt: skip
_NAMED = {
    "user": {"type": "string", "pattern": r"^[A-Za-z0-9._~:@+-]{1,256}$"},
    "id": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[^/]+$"},
    "number": {"type": "integer", "minimum": 1, "maximum": 10**15},
}


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    found: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        found.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, operation.id)
        if operation.alias:
            path = operation.path.removeprefix("/v1")
            found.setdefault(path, {})[operation.method.lower()] = _operation(operation, f"{operation.id}_unversioned")
    found["/healthz"] = {"get": _plain("healthz", "Is the process there?", "Health", {"200": "it is"})}
    found["/readyz"] = {
        "get": _plain(
            "readyz",
            "Does it accept publications and subscriptions?",
            "Readiness",
            {"200": "it does", "503": "not yet, or not any more"},
        )
    }
    found["/openapi.json"] = {"get": _plain("openapi", "This document", {"type": "object"}, {"200": "the document"})}
    found["/v1/session"] = {"get": _session()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Recado",
            "version": __version__,
            "description": "Content-based publish/subscribe. WebSocket sessions live at /v1/session.",
        },
        "security": [{name: []} for name in _SCHEMES],
        "paths": found,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": _SCHEMES,
        },
    }


def _plain(name: str, summary: str, schema: str | dict[str, Any], answers: dict[str, str]) -> dict[str, Any]:
    content = {"application/json": {"schema": _schema(schema)}}
    shown = {status: {"description": text, "content": content} for status, text in answers.items()}
    return {
        "operationId": name,
        "summary": summary,
        "security": [],
        "responses": {**shown, **{str(status): _problem(status) for status in (400, 405, 431)}},
    }


def _session() -> dict[str, Any]:
    upgrade = _problem(426) | {"headers": {"Upgrade": {"schema": {"const": "websocket"}}}}
    return {
        "operationId": "websocket",
        "summary": "A session over a WebSocket; docs/websocket.md has its messages",
        "security": [],
        "responses": {
            "101": {"description": HTTPStatus(101).phrase},
            "426": upgrade,
            **{str(status): _problem(status) for status in (400, 401, 403, 431, 503)},
        },
    }


def _problem(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase, "content": _PROBLEM}
    return described | ({"headers": _HEADERS[status]} if status in _HEADERS else {})


def _operation(operation: Operation, name: str) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": name,
        "summary": operation.summary,
        "parameters": _parameters(operation),
    }
    if operation.body is not None:
        described["requestBody"] = _body(operation.body)
    answers = {str(status): _answer(status, schema, operation.media) for status, schema in operation.answers.items()}
    for status in (*_ALWAYS, *operation.errors):
        answers[str(status)] = _problem(status)
    described["responses"] = dict(sorted(answers.items()))
    return described


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    path = [
        {"name": name, "in": "path", "required": True, "schema": _NAMED[name]}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    query = [{"name": name, "in": "query", "schema": schema} for name, schema in operation.query.items()]
    headers = [{"name": name, "in": "header", "schema": schema} for name, schema in operation.headers.items()]
    return path + query + headers


def _body(body: Body) -> dict[str, Any]:
    return {"required": body.required, "content": {media: {"schema": _schema(s)} for media, s in body.content.items()}}


def _answer(status: int, schema: str, media: str) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if status != HTTPStatus.NO_CONTENT:
        described["content"] = {media: {"schema": _schema(schema)} if schema else {}}
    return described


def _schema(schema: str | dict[str, Any]) -> dict[str, Any]:
    return _ref(schema) if isinstance(schema, str) else schema
