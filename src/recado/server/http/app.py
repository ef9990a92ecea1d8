"""The HTTP application: routes from the table of operations, around each of them the same steps.

    request -> known path and method? -> who is it? -> how fast? -> known parameters? -> handler -> answer
                      any error on the way -> a problem (RFC 9457) with the status that fits

Every route answers HEAD where it answers GET, OPTIONS with what is allowed, and another method with 405. There are no
headers for pages of other origins (CORS): none may use the service.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from time import perf_counter
from typing import Any
from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.responses import Response

from recado.errors import RecadoError
from recado.server.gateway import Gateway
from recado.server.http import routes as service
from recado.server.http.openapi import document
from recado.server.http.operations import OPERATIONS, Operation
from recado.server.http.request import Call, ParameterError, json_answer
from recado.server.identity import Caller
from recado.server.permissions import Busy, Principal, Unknown
from recado.server.problems import StatusError, answer, problem
from recado.server.websocket import PATH

_log = logging.getLogger("recado.http")
_SEND_SECONDS = 60.0
_UPGRADE = {"upgrade": "websocket", "connection": "upgrade"}
_CLOSE = {"connection": "close"}
_OPEN = ("/healthz", "/readyz", "/openapi.json")
"""Paths that need no token."""
_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST")
"""What metrics tell apart; anyone may send a method that does not exist, and another one each time."""


class Route:
    """A path with its methods."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.names = re.findall(r"{(\w+)}", path)
        self.pattern = re.compile(re.sub(r"{\w+}", "([^/]+)", path))
        self.operations: dict[str, Operation] = {}

    @property
    def allowed(self) -> str:
        methods = [*self.operations, *(["HEAD"] if "GET" in self.operations else []), "OPTIONS"]
        return ", ".join(sorted(methods))


def routes() -> list[Route]:
    """All paths; aliases are paths of their own with the same operations."""
    found: dict[str, Route] = {}
    for operation in OPERATIONS:
        for path in paths(operation):
            found.setdefault(path, Route(path)).operations[operation.method] = operation
    return list(found.values())


def paths(operation: Operation) -> Iterator[str]:
    yield operation.path
    if operation.alias:
        yield operation.path.removeprefix("/v1")


class App:
    """The ASGI application of one service."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._routes = routes()
        self._document = document()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, and count it."""
        request = Request(scope, receive)
        begun, path = perf_counter(), _path(request)[:200]
        try:
            chosen = self._choose(request)
            if isinstance(chosen, Response):
                response = chosen
            else:
                who = request.scope["recado.who"] = self._caller(request)
                _note_whose(chosen, request, who)
                self._gateway.strangers.pop(request.scope["client"], None)
                self._gateway.check_request(who)
                _check_parameters(chosen, request)
                response = await chosen.handler(Call(self._gateway, request, who))
        except RecadoError as error:
            response = problem(error, path)
        except asyncio.CancelledError:  # the service stops, and has waited long enough
            response = problem(Busy("the service stopped before this was done; try again in a moment"), path)
        except Exception:  # noqa: BLE001  # the caller gets an answer, and the log the reason
            _log.exception("a request failed in a way that nobody foresaw", extra={"path": path})
            response = answer(500, "the service failed; its log says why", path)
        self._count(request, path, response.status_code, perf_counter() - begun)
        if request.method == "HEAD":
            response = Response(None, response.status_code, dict(response.headers))
        try:
            await response(scope, receive, _patient(send))
        except (RecadoError, TimeoutError) as error:  # the answer is cut short, which its reader notices
            _log.warning("an answer was not finished", extra={"path": path, "reason": str(error) or "not taken"})

    def _choose(self, request: Request) -> Operation | Response:
        """The operation that is asked for, or the answer where it takes none; the scope gets the route's path."""
        path = _path(request)
        if path in _OPEN:
            response = self._open(request)
            request.scope["recado.route"] = path
            return response
        if path == PATH:
            raise StatusError(426, "this is for WebSockets, which begin with a GET that asks for an upgrade", _UPGRADE)
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            raise StatusError(400, "a body has a Content-Length or a Transfer-Encoding, not both", _CLOSE)
        route, values = self._found(path)
        request.scope["recado.route"] = route.path
        request.scope["path_params"] = dict(zip(route.names, values, strict=True))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": route.allowed})
        operation = route.operations.get("GET" if request.method == "HEAD" else request.method)
        if operation is None:
            raise _not_allowed(request.method, route.allowed)
        return operation

    def _open(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"allow": "GET, HEAD, OPTIONS"})
        if request.method not in ("GET", "HEAD"):
            raise _not_allowed(request.method, "GET, HEAD, OPTIONS")
        match _path(request):
            case "/healthz":
                return service.healthz()
            case "/readyz":
                return service.readyz(self._gateway)
            case _:
                return json_answer(self._document)

    def _found(self, path: str) -> tuple[Route, list[str]]:
        for route in self._routes:
            if found := route.pattern.fullmatch(path):
                return route, [_decoded(value) for value in found.groups()]
        raise Unknown(f"there is nothing at {path[:200]!r}; /openapi.json lists what there is")

    def _count(self, request: Request, path: str, status: int, seconds: float) -> None:
        """Metrics, audit and log. Audited is what changes something, what was refused, and who reads another's."""
        route = request.scope.get("recado.route", "other")
        method = request.method if route != "other" and request.method in _METHODS else "-"
        self._gateway.metrics.requests[method, route, str(status)] += 1
        _log.debug("%s %s %d", request.method, path, status, extra={"seconds": round(seconds, 6)})
        audited = request.scope.get("recado.audited")
        if request.method in ("GET", "HEAD", "OPTIONS") and audited is None and status not in (401, 403, 429):
            return
        address = request.client.host if request.client else ""
        did = f"{request.method} {path}"
        who = request.scope.get("recado.who")
        self._gateway.audit.note(who, address, "http", did, status=status, **(audited or {}))

    def _caller(self, request: Request) -> Principal:
        address = request.client.host if request.client else ""
        user = request.query_params.get("user", "")
        return self._gateway.identity.principal(Caller(address, request.headers, user, request.scope["http_version"]))


def _path(request: Request) -> str:
    """The path as it was sent: an id may hold ``/``, ``?`` and ``#``, which are themselves only after decoding."""
    return bytes(request.scope["raw_path"]).decode("latin-1")


def _decoded(text: str) -> str:
    """A part of the path. What is no UTF-8 would be read as another text."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ParameterError(f"{text[:100]!r} in the path: its percent-encoding is not UTF-8") from None


def _note_whose(operation: Operation, request: Request, who: Principal) -> None:
    """Whose things an administrator asks for, for the audit log; not who looks at figures every second."""
    named: str = request.scope["path_params"].get("user") or request.query_params.get("user", "")
    if named in ("", "me", who.user) or operation.handler is service.lag:
        return
    if "user" in operation.query or "{user}" in operation.path:
        request.scope["recado.audited"] = {"of": named[:256]}


def _check_parameters(operation: Operation, request: Request) -> None:
    try:
        parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise ParameterError("the query: its percent-encoding is not UTF-8") from None
    known = {*operation.query, "user"}  # a caller without a token may be named so
    for name in request.query_params:
        if name not in known:
            raise ParameterError(
                f"?{name[:100]}: there is no such parameter here; known are {', '.join(sorted(known))}"
            )


def _not_allowed(method: str, allowed: str) -> StatusError:
    return StatusError(405, f"{method} is not for this path; allowed are {allowed}", {"allow": allowed})


def _patient(send: Any) -> Any:
    """A client that takes nothing of its answer for a minute is let go."""

    async def timed(message: Any) -> None:
        async with asyncio.timeout(_SEND_SECONDS):
            await send(message)

    return timed
