"""One HTTP request as the handlers see it: who calls, its parameters checked, its body read within bounds.

A parameter that an operation does not know is an error, because a misspelt limit would be none. A body may have
``limits.body_bytes``; it must come at a rate of some kilobytes a second, so that nobody holds a request open for
nothing. Compressed bodies are refused (415): there is nothing to inflate.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from recado.errors import RecadoError
from recado.model.decoding import explain
from recado.model.values import parse_time
from recado.server.gateway import Gateway
from recado.server.listing import MOST, PAGE_BYTES, Page, PageRequest
from recado.server.permissions import Principal
from recado.server.problems import StatusError, TooLargeError

_BYTES_A_SECOND = 16 * 1024
T = TypeVar("T")


class ParameterError(RecadoError):
    """A query parameter, a header or a part of the path that cannot be used."""


class Call:
    """A request of an authenticated caller."""

    def __init__(self, gateway: Gateway, request: Request, who: Principal) -> None:
        self.gateway, self.engine, self.request, self.who = gateway, gateway.engine, request, who

    def note(self, **what: Any) -> None:
        """The audit log gets a line for this request, whatever its method, and this in it."""
        self.request.scope.setdefault("recado.audited", {}).update(what)

    @property
    def address(self) -> str:
        return self.request.client.host if self.request.client else ""

    def path(self, name: str) -> str:
        value: str = self.request.path_params[name]
        return value

    def user(self) -> str:
        """The user that the path names; ``me`` is the caller."""
        named = self.path("user")
        return self.who.user if named == "me" else named

    def text(self, name: str) -> str | None:
        """A query parameter; given twice it would be unclear which counts."""
        values = self.request.query_params.getlist(name)
        if len(values) > 1:
            raise ParameterError(f"?{name}: it may be given once")
        if values and not values[0]:
            raise ParameterError(f"?{name}: it has no value")
        return values[0] if values else None

    def number(self, name: str, most: int | None = None, least: int = 0) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise ParameterError(f"?{name}: must be a whole number, not {text[:50]!r}")
        number = int(text)
        if number < least or (most is not None and number > most):
            bounds = f"from {least:,}" if most is None else f"from {least:,} to {most:,}"
            raise ParameterError(f"?{name}: must be {bounds}")
        return number

    def flag(self, name: str) -> bool:
        text = self.text(name)
        if text not in (None, "true", "false"):
            raise ParameterError(f"?{name}: must be true or false, not {text[:50]!r}")
        return text == "true"

    def seconds(self, name: str, most: float) -> float:
        text = self.text(name)
        try:
            value = float(text) if text is not None else 0.0
        except ValueError:
            raise ParameterError(f"?{name}: must be a number of seconds, not {text!r:.60}") from None
        if not 0 <= value <= most:
            raise ParameterError(f"?{name}: must be from 0 to {most:g} seconds")
        return value

    def instant(self, name: str) -> Any:
        text = self.text(name)
        try:
            return None if text is None else parse_time(text)
        except ValueError as error:
            raise ParameterError(f"?{name}: {error}") from None

    def page_request(self, user: str | None = None) -> PageRequest:
        """The part of a list that the query asks for: of this user, of the one that it names, or of the caller."""
        return PageRequest(
            user=user or self.text("user") or self.who.user,
            limit=self.number("limit", MOST, 1) or MOST,
            after=self.text("after"),
            prefix=self.text("prefix") or "",
        )

    async def body(self) -> bytes:
        """The whole body."""
        if self.request.headers.get("content-encoding", "identity").lower() != "identity":
            raise StatusError(415, "compressed bodies are not read; send it plain")
        most = self.gateway.config.limits.body_bytes
        announced = self.request.headers.get("content-length", "0")
        if announced.isdigit() and int(announced) > most:
            raise TooLargeError(f"the body has {int(announced):,} bytes; the limit is {most:,}")
        return await self._receive(most)

    async def _receive(self, most: int) -> bytes:
        loop = asyncio.get_running_loop()
        begun, size = loop.time(), 0
        parts: list[bytes] = []
        stream = self.request.stream()
        try:
            while True:
                patience = self.gateway.config.sessions.hello_seconds + size / _BYTES_A_SECOND
                async with asyncio.timeout_at(begun + patience):
                    part = await anext(stream, None)
                if part is None:
                    return b"".join(parts)
                parts.append(part)
                size += len(part)
                if size > most:
                    raise TooLargeError(f"the body is larger than the limit of {most:,} bytes")
        except TimeoutError:
            raise StatusError(408, "the body did not come in time", {"connection": "close"}) from None
        except ClientDisconnect:
            raise StatusError(400, "the body ended before its announced length") from None

    async def members(self, kind: type[T]) -> T:
        """The body as a JSON object of this kind."""
        self.check_media("application/json")
        return decoded(await self.body(), kind)

    @property
    def media(self) -> str:
        """The media type of the body, without its parameters."""
        return self.request.headers.get("content-type", "").partition(";")[0].strip().lower()

    def check_media(self, *allowed: str) -> None:
        if self.media not in allowed:
            given = f"not {self.media[:100]!r}" if self.media else "and none was given"
            raise StatusError(415, f"content-type must be {' or '.join(allowed)}, {given}")


def decoded(raw: bytes, kind: type[T]) -> T:
    """JSON as a value of this kind; an error that names the place."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError as error:
        raise ParameterError(explain(error, kind, raw)) from None
    except UnicodeError:
        raise ParameterError("$: the text is not UTF-8") from None
    except RecursionError:
        raise ParameterError("$: the JSON is nested far too deep") from None


# --- Answers that are JSON: whole, a page of something long, or a line at a time while the client takes them ---------
#
# A page has as many things as were asked for, but no more bytes than ``PAGE_BYTES``, unless one alone has more. If
# something is left, ``next`` is what to give as ``after`` to go on.


_encode = msgspec.json.Encoder().encode
LINES = "application/x-ndjson"


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


def raw_answer(body: bytes, headers: Mapping[str, str] | None = None) -> Response:
    """JSON that was put together from parts which are JSON already."""
    return Response(body, 200, headers, "application/json")


def page_answer(call: Call, name: str, page: Page) -> Response:
    """A list's page under a name; where the next one is stands in a header, too, for what knows nothing of pages."""
    listed = b'{"%b":[%b]' % (name.encode(), b",".join(page.entries))
    if page.following is None:
        return raw_answer(listed + b"}")
    query = call.request.url.include_query_params(after=page.following).query
    return raw_answer(b'%b,"next":%b}' % (listed, _encode(page.following)), {"link": f'<?{query}>; rel="next"'})


def lines_answer(lines: AsyncIterator[bytes]) -> Response:
    return StreamingResponse(lines, 200, None, LINES)
