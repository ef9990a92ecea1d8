"""``/v1/replay``: events of the log through a filter, from a position or an instant on, an event a line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.responses import Response

from recado.service.http.answers import lines_answer
from recado.service.http.call import Call, ParameterError
from recado.service.records import instant

_encode = msgspec.json.Encoder().encode


async def replay(call: Call) -> Response:
    """By query: ``?filter=Price < 25&type=Tick&since=...``; ``semantic`` is a JSON object."""
    members: dict[str, Any] = {name: call.text(name) for name in ("filter", "syntax", "type")}
    members["semantic"] = _semantic(call.text("semantic"))
    record = _encode({"id": "replay", **{name: value for name, value in members.items() if value is not None}})
    return await _answer(call, record, call.number("position"), call.instant("since"), call.number("limit", least=1))


def _semantic(text: str | None) -> Any:
    try:
        return None if text is None else msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise ParameterError('?semantic: must be a JSON object such as {} or {"threshold": 0.4}') from None


class _Replay(msgspec.Struct, forbid_unknown_fields=True):
    sub: dict[str, Any] = {}
    position: int | None = None
    since: str | None = None
    limit: int | None = None


async def replay_through(call: Call) -> Response:
    """By body, for filters of any kind and length."""
    wanted = await call.members(_Replay)
    record = _encode({"id": "replay", **wanted.sub})
    return await _answer(call, record, wanted.position, instant(wanted.since, "since"), wanted.limit)


async def _answer(call: Call, record: bytes, position: int | None, since: Any, limit: int | None) -> Response:
    """The first event is found before the answer begins, so that an error is still an error."""
    damage: dict[str, None] = {}
    found = call.doors.replay(call.who, record, position=position, since=since, limit=limit, damage=damage)
    first = await anext(found, None)

    async def lines() -> AsyncIterator[bytes]:
        if first is not None:
            yield _line(*first)
        gathered: list[bytes] = []
        size = 0
        async with aclosing(found):
            async for at, event in found:
                gathered.append(_line(at, event))
                size += len(event)
                if size > 64 * 1024:
                    yield b"".join(gathered)
                    gathered, size = [], 0
        yield b"".join(gathered) + b"".join(_encode({"damage": text}) + b"\n" for text in damage)

    return lines_answer(lines())


def _line(position: int, event: bytes) -> bytes:
    return b'{"position":%d,"event":%b}\n' % (position, event)
