"""``/openapi.json``: the document of the HTTP interface, made from the table of operations, so that it cannot lie."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from recado import __version__
from recado.service.http.operations import OPERATIONS, Body, Operation
from recado.service.http.schemas import SCHEMAS

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
