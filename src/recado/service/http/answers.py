"""Answers that are JSON: whole, or a line at a time while the client takes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

_encode = msgspec.json.Encoder().encode
LINES = "application/x-ndjson"


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_encode(value), status, headers, "application/json")


def raw_answer(body: bytes) -> Response:
    """JSON that was put together from parts which are JSON already."""
    return Response(body, 200, None, "application/json")


def lines_answer(lines: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(lines, 200, None, LINES)
