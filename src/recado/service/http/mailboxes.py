"""``/v1/mailboxes`` and ``/v1/sessions``: what waits for whom, who is connected, and long polls."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from recado.protocols.session.messages import Gap, SubCancelled
from recado.service.http.answers import MOST, json_answer, page, raw_answer
from recado.service.http.call import Call, ParameterError
from recado.service.legs import Notified
from recado.service.permissions import Unknown, authorise

DEVICE = "poll"
_encode = msgspec.json.Encoder().encode


async def mailboxes(call: Call) -> Response:
    return json_answer({"mailboxes": call.engine.mailboxes(call.who, call.text("user"))})


async def mailbox(call: Call) -> Response:
    """What waits for one user: all mailboxes that the user has, one for each device that needs its own."""
    found = call.engine.mailboxes(call.who, call.user())
    if not found:
        raise Unknown(f"user {call.user()!r} has no mailbox")
    return json_answer({"mailboxes": found})


async def peek(call: Call) -> Response:
    """Look at a page of what waits, without taking it."""
    limit = call.number("limit", MOST, 1) or 100
    found = await call.engine.peek(call.who, call.user(), limit + 1, call.number("after"), call.text("device"))
    shown = page(found, limit, _size)
    return _answer(shown, (), b',"next":%d' % shown[-1].nid if len(shown) < len(found) else b"")


async def purge(call: Call) -> Response:
    """Throw away what waits; the user is told with a GAP."""
    return json_answer({"purged": await call.engine.purge(call.who, call.user(), call.text("device"))})


class _Take(msgspec.Struct, forbid_unknown_fields=True):
    """``wait`` in seconds; ``upto`` and ``notices`` acknowledge the answer before this one."""

    device: str = DEVICE
    limit: int = 100
    wait: float = 0
    upto: int | None = None
    notices: tuple[int, ...] = ()


async def take(call: Call) -> Response:
    """The next notifications, waiting for the first; those that are not acknowledged come again."""
    call.doors.check_open()
    wanted = await call.members(_Take)
    _check_self(call)
    if not 1 <= wanted.limit <= MOST:
        raise ParameterError(f"$.limit: must be from 1 to {MOST:,}")
    if not 0 <= wanted.wait <= call.doors.config.limits.poll_seconds:
        raise ParameterError(f"$.wait: must be from 0 to {call.doors.config.limits.poll_seconds:g} seconds")
    if wanted.upto is not None or wanted.notices:
        call.doors.polls.acknowledge(call.who, wanted.device, wanted.upto, wanted.notices)
    client = call.request.client
    leg = await call.doors.polls.take(call.who, wanted.device, client.host if client else "", wanted.wait)
    found = sorted(leg.notifications.values(), key=lambda notified: notified.nid)
    return _answer(page(found, wanted.limit, _size), tuple(leg.notices.values()))


class _Acknowledgement(msgspec.Struct, forbid_unknown_fields=True):
    device: str = DEVICE
    upto: int | None = None
    notices: tuple[int, ...] = ()


async def acknowledge(call: Call) -> Response:
    """Confirm everything up to a nid, and notices, that ``take`` returned to this device."""
    wanted = await call.members(_Acknowledgement)
    _check_self(call)
    call.doors.polls.acknowledge(call.who, wanted.device, wanted.upto, wanted.notices)
    return Response(status_code=204)


def _check_self(call: Call) -> None:
    """A mailbox is taken from by its user alone: whoever takes is a device of that user."""
    authorise(call.who, "read", user=call.user())
    if call.user() != call.who.user:
        raise Unknown(f"only {call.user()!r} takes from this mailbox; peek looks without taking")


def _size(notified: Notified) -> int:
    return len(notified.event)


def _answer(notifications: Sequence[Notified], notices: tuple[Gap | SubCancelled, ...], more: bytes = b"") -> Response:
    parts = b",".join(notified.message() for notified in notifications)
    return raw_answer(b'{"notifications":[%b],"notices":%b%b}' % (parts, _encode(notices), more))


# -- sessions ----------------------------------------------------------------------------------------------------------


async def sessions(call: Call) -> Response:
    return json_answer({"sessions": call.engine.sessions(call.who, call.text("user"))})


async def session(call: Call) -> Response:
    """The devices of one user."""
    found = call.engine.sessions(call.who, call.user())
    if not found:
        raise Unknown(f"user {call.user()!r} has no session")
    return json_answer({"sessions": found})


async def end_session(call: Call) -> Response:
    """End the session of a device, or all of the user's; subscriptions stay."""
    ended = call.engine.end_session(call.who, call.user(), call.text("device"))
    if not ended:
        raise Unknown(f"user {call.user()!r} has no such session")
    return json_answer({"ended": ended})
