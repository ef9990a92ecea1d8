"""Answers that are JSON: whole, a page of something long, or a line at a time while the client takes them.

A page has as many things as were asked for, but no more bytes than ``PAGE_BYTES``, unless one alone has more. If
something is left, ``next`` is what to give as ``after`` to go on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response, StreamingResponse

_encode = msgspec.json.Encoder().encode
LINES = "application/x-ndjson"
MOST = 1_000
"""Things on one page."""
PAGE_BYTES = 2**20
T = TypeVar("T")


def page(found: Sequence[T], limit: int, size: Callable[[T], int]) -> Sequence[T]:
    """The beginning of what was found that makes a page."""
    total = 0
    for number, thing in enumerate(found[:limit]):
        total += size(thing)
        if total > PAGE_BYTES and number:
            return found[:number]
    return found[:limit]


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_encode(value), status, headers, "application/json")


def raw_answer(body: bytes) -> Response:
    """JSON that was put together from parts which are JSON already."""
    return Response(body, 200, None, "application/json")


def lines_answer(lines: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(lines, 200, None, LINES)
