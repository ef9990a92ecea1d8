"""The service's HTTP interface, as far as the commands use it: sessions, mailboxes, subscriptions, replay.

Calls wait. Of several hosts the first that answers is taken. A problem that the service tells becomes the same error
as in a session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import httpx
import msgspec

from recado.client.errors import AddressError, Unreachable, problem_detail, refusal
from recado.client.urls import Host, Target, authority

_SECONDS = 30.0


class HttpClient:
    """Use it with ``with``. Calls raise Unreachable, NotAllowed or Refused; an AddressError for a target by SIP."""

    def __init__(self, target: Target) -> None:
        if target.sip is not None:
            raise AddressError("this command uses HTTP; name the service as recado://host:port or in a context")
        self._target = target
        headers = {"x-recado-user": target.user} if target.user else {}
        if target.token:
            headers["authorization"] = f"Bearer {target.token}"
        # A proxy of the environment is for the outside; the service names callers by their address.
        self._client = httpx.Client(headers=headers, timeout=_SECONDS, trust_env=False)

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def call(
        self, method: str, path: str, *, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """One request; the JSON of its answer, {} if there is none."""
        with self._open(method, path, query, body) as response:
            content = response.read()
        answer: dict[str, Any] = msgspec.json.decode(content) if content else {}
        return answer

    def text(self, path: str) -> str:
        """An answer of plain text."""
        with self._open("GET", path, None, None) as response:
            return response.read().decode()

    def lines(self, path: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """An answer of JSON lines, as they come."""
        with self._open("GET", path, query, None) as response:
            for line in response.iter_lines():
                if line.strip():
                    yield msgspec.json.decode(line)

    @contextmanager
    def _open(self, method: str, path: str, query: Mapping[str, Any] | None, body: Any) -> Iterator[httpx.Response]:
        problems = []
        wanted = {name: value for name, value in (query or {}).items() if value is not None and value != ""}
        for host in self._target.hosts:
            try:
                request = self._client.build_request(
                    method,
                    self._target.http(host) + path,
                    params=wanted,
                    content=None if body is None else msgspec.json.encode(body),
                    headers={} if body is None else {"content-type": "application/json"},
                )
            except httpx.InvalidURL as error:
                raise AddressError(f"{self._target.http(host)!r} leads to no service: {error}") from None
            try:
                response = self._client.send(request, stream=True)
            except httpx.ConnectError as error:
                problems.append(_problem(host, error))
                continue
            except httpx.HTTPError as error:
                raise Unreachable(f"{authority(host)}: {str(error) or type(error).__name__}") from None
            try:
                _check(response)
                yield response
            finally:
                response.close()
            return
        raise Unreachable(
            f"no event service at {self._target.description()} ({'; '.join(problems)}); start one with: recado serve"
        )


def _problem(host: Host, error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return f"{authority(host)}: {cause.strerror}"
        cause = cause.__cause__ or cause.__context__
    return f"{authority(host)}: {str(error) or type(error).__name__}"


def _check(response: httpx.Response) -> None:
    if response.is_success:
        return
    raise refusal(response.status_code, problem_detail(response.read()) or response.reason_phrase)
