"""``/openapi.json``: the document of the HTTP interface, made from the table of operations, so that it cannot lie."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from recado.server.http.operations import OPERATIONS, Body, Operation
from recado.version import __version__

# --- The schemas of ``/openapi.json``: what requests and answers hold ------------------------------------------------


_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_INSTANT = {"type": "string", "format": "date-time"}
_DEVICE = {"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,128}$"}
_NID = {"type": "integer", "minimum": 0, "maximum": 2**53}
_NEXT = {**_NID, "description": "there if more is left: give it as after to go on"}


def _object(required: tuple[str, ...] = (), *, closed: bool = False, **members: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": members}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


def _list(of: str) -> dict[str, Any]:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{of}"}}


_SUBSCRIPTION: dict[str, Any] = {
    "id": {"type": ["string", "integer"]},
    "filter": {"type": "string", "examples": ["Price < 25"], "description": "in any of the filter syntaxes"},
    "filters": {"type": "array", "items": {"type": "object"}, "description": "CloudEvents Subscriptions API"},
    "syntax": {"type": "string"},
    "type": {"type": "string", "description": "an event type, or a pattern with * and ?"},
    "expires_at": _INSTANT,
    "constraints": {"type": "array", "items": {"type": "object"}},
    "semantic": {"type": "object"},
    "scope": {"enum": ["all", "this device"]},
    "webhook": {"$ref": "#/components/schemas/Webhook"},
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
            "specversion": {"const": "1.0"},
            "id": {"type": "string", "minLength": 1},
            "source": {"type": "string", "minLength": 1},
            "type": {"type": "string", "minLength": 1},
            "time": _INSTANT,
        },
        "additionalProperties": {"type": ["string", "integer", "boolean"]},
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
    "NewSubscription": _object(
        closed=True, **_SUBSCRIPTION,
        ttl={"type": "number", "exclusiveMinimum": 0},
        subscription={"type": "string", "description": "another name of filter"},
        callback={"type": "string", "format": "uri", "description": "another name of webhook.url"},
    ),
    "Subscription": _object(("id", "expires_at", "scope"), **_SUBSCRIPTION, device=_TEXT, user=_TEXT),
    "Subscriptions": _object(("subscriptions",), subscriptions=_list("Subscription")),
    "Renewal": _object(closed=True, ttl={"type": ["number", "null"]}, expires_at={"type": ["string", "null"]}),
    "Cancelled": _object(("cancelled",), cancelled=_COUNT),
    "Session": _object(
        ("user", "device", "connected", "at"),
        user=_TEXT, device=_TEXT, connected={"type": "boolean"}, at=_INSTANT, kind=_TEXT, address=_TEXT,
        window=_COUNT, unacknowledged=_COUNT,
    ),
    "Sessions": _object(("sessions",), sessions=_list("Session")),
    "Ended": _object(("ended",), ended=_COUNT),
    "Mailbox": _object(
        ("user", "device", "length", "bytes"),
        user=_TEXT, device=_TEXT, length=_COUNT, bytes=_COUNT, oldest={"type": ["string", "null"]},
        delivered=_COUNT, delivered_late=_COUNT, dropped={"type": "object"}, notices=_COUNT,
    ),
    "Mailboxes": _object(("mailboxes",), mailboxes=_list("Mailbox")),
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
        notifications=_list("Notification"), notices={"type": "array", "items": {"type": "object"}}, next=_NEXT,
    ),
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
    "Status": {"type": "object"},
}
# fmt: on


# --- ``/openapi.json``: the document of the HTTP interface, made from the table of operations, so that it cannot lie

_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_ALWAYS = (400, 401, 429, 503)
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
    found["/healthz"] = {"get": _plain("healthz", "Is the process there?", {"200": "it is"})}
    found["/readyz"] = {
        "get": _plain(
            "readyz",
            "Does it accept publications and subscriptions?",
            {"200": "it does", "503": "not yet, or not any more"},
        )
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Recado",
            "version": __version__,
            "description": "Content-based publish/subscribe. WebSocket sessions live at /v1/session.",
        },
        "security": [{"token": []}, {}],
        "paths": found,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "of recado token add"}},
        },
    }


def _plain(id: str, summary: str, answers: dict[str, str]) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}}
    return {
        "operationId": id,
        "summary": summary,
        "security": [],
        "responses": {status: {"description": text, "content": content} for status, text in answers.items()},
    }


def _operation(operation: Operation, id: str) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": id, "summary": operation.summary, "parameters": _parameters(operation)}
    if operation.body is not None:
        described["requestBody"] = _body(operation.body)
    answers = {str(status): _answer(status, schema, operation.media) for status, schema in operation.answers.items()}
    for status in (*_ALWAYS, *operation.errors):
        answers[str(status)] = {"description": HTTPStatus(status).phrase, "content": _PROBLEM}
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
    return {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema
