"""Errors as answers: one table from the errors of the service to HTTP statuses, and the body of RFC 9457.

The same statuses stand in ``ERROR.code`` on a WebSocket. ``detail`` is the message of the error, which names the place
and the reason; where it begins with a place (``$.filter``, ``event 3 of the batch: $.id``) the body has it as a
``place`` of its own. An error that nobody foresaw becomes a 500 without detail: its text may hold what is secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from recado.errors import LimitError, RecadoError
from recado.server.permissions import Busy, Conflict, Denied, Unknown
from recado.store.log.settings import LogError

CONTENT_TYPE = "application/problem+json"
_PLACE = re.compile(r"((?:event \d+ of the batch: )?\$[^\s:]*): ")
_LONGEST = 2_000


class UnauthenticatedError(RecadoError):
    """No token, or one that is not known."""


class TooManyError(RecadoError):
    """More than the limits allow in this time."""

    def __init__(self, text: str, after_seconds: float = 1) -> None:
        super().__init__(text)
        self.after_seconds = after_seconds


class TooLargeError(LimitError):
    """A body or a frame beyond its limit."""


class StatusError(RecadoError):
    """An error that is all HTTP's own: a wrong method, a wrong media type."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status, self.headers = status, dict(headers or {})


_STATUSES: tuple[tuple[type[RecadoError], int], ...] = (
    (UnauthenticatedError, 401),
    (Denied, 403),
    (Unknown, 404),
    (Conflict, 409),
    (TooLargeError, 413),
    (TooManyError, 429),
    (Busy, 503),
    (LogError, 503),
)


def status_of(error: RecadoError) -> int:
    """The HTTP status that says what kind of error this is."""
    if isinstance(error, StatusError):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)


def text_of(error: RecadoError) -> str:
    """The message, cut where someone's input made it endless."""
    text = str(error)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."


def problem(error: RecadoError, instance: str) -> Response:
    """The answer to a request that failed."""
    status, detail = status_of(error), text_of(error)
    headers: dict[str, str] = {}
    if isinstance(error, UnauthenticatedError):
        headers["www-authenticate"] = 'Bearer realm="recado"'
    elif isinstance(error, TooManyError):
        headers["retry-after"] = str(max(1, round(error.after_seconds)))
    elif status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["retry-after"] = "1"
    elif isinstance(error, StatusError):
        headers.update(error.headers)
    return answer(status, detail, instance, headers)


def answer(status: int, detail: str, instance: str, headers: Mapping[str, str] | None = None) -> Response:
    """A problem of any status."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": instance,
    }
    if found := _PLACE.match(detail):
        body["place"] = found[1]
    return Response(msgspec.json.encode(body), status, headers, CONTENT_TYPE)
