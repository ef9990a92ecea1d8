"""``/v1/subscriptions``: create, list, show, renew and cancel. A subscription with a webhook is delivered by POST."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

import msgspec
from starlette.responses import Response

from recado.errors import EventError
from recado.model.codec import parse_json, read_event, split_batch
from recado.model.event import Event
from recado.model.tracing import TRACEPARENT, TRACESTATE, with_trace
from recado.protocols.session.messages import Gap, SubCancelled
from recado.server.consumer import OutgoingNotification
from recado.server.engine import STORING
from recado.server.gateway import Gateway
from recado.server.http.request import Call, ParameterError, json_answer, lines_answer, page, page_answer, raw_answer
from recado.server.listing import MOST, PAGE_BYTES
from recado.server.metrics import CONTENT_TYPE, exposition
from recado.server.permissions import Unknown, authorise
from recado.server.problems import TooLargeError
from recado.server.records import instant, shown
from recado.server.webhooks.dead_letters import DeadLetter

HTTP_DEVICE = "http"
"""The device of subscriptions that name none."""


async def subscribe(call: Call) -> Response:
    """Subscribe; the answer leaves when the subscription is durable. The same id replaces."""
    call.check_media("application/json")
    raw = await call.body()
    held = await call.gateway.subscribe(call.who, raw, call.text("device") or HTTP_DEVICE)
    call.note(subscription=held.id)
    return json_answer(shown(held.members()), 201, {"location": f"/v1/subscriptions/{quote(held.id, safe='')}"})


async def subscriptions(call: Call) -> Response:
    """The caller's subscriptions; an administrator may ask for another user's, and with * for those of many."""
    found = call.engine.page_of_subscriptions(
        call.who, call.page_request(), lambda held: {"user": held.user, **shown(held.members())}
    )
    return page_answer(call, "subscriptions", found)


async def subscription(call: Call) -> Response:
    held = call.engine.find_subscription(call.who, call.path("id"), call.text("user"))
    return json_answer(shown(held.members()))


class _Renewal(msgspec.Struct, forbid_unknown_fields=True):
    ttl: float | None = None
    expires_at: str | None = None


async def renew(call: Call) -> Response:
    """Let it live longer: by ``ttl`` seconds from now, or until ``expires_at``; by the default if neither is given."""
    wanted = await call.members(_Renewal)
    if wanted.ttl is not None and wanted.expires_at is not None:
        raise ParameterError("$.ttl: give either ttl or expires_at, not both")
    until = instant(wanted.expires_at, "expires_at")
    held = await call.engine.renew(call.who, call.path("id"), until, wanted.ttl)
    return json_answer(shown(held.members()))


async def cancel(call: Call) -> Response:
    """An administrator may end another user's, who is told."""
    await call.engine.cancel(call.who, call.path("id"), call.text("user"))
    return Response(status_code=204)


async def discard(call: Call) -> Response:
    """Cancel all that the user has, but for those of other devices, and empty the mailbox."""
    device = call.text("device")
    if device is None:
        raise ParameterError("?device: name the device that starts anew")
    return json_answer({"cancelled": await call.engine.discard(call.who, device)})


# --- ``/v1/mailboxes`` and ``/v1/sessions``: what waits for whom, who is connected, and long polls -------------------


POLL_DEVICE = "poll"
_encode = msgspec.json.Encoder().encode


async def mailboxes(call: Call) -> Response:
    return page_answer(call, "mailboxes", call.engine.page_of_mailboxes(call.who, call.page_request()))


async def mailbox(call: Call) -> Response:
    """What waits for one user: all mailboxes that the user has, one for each device that needs its own."""
    found = call.engine.page_of_mailboxes(call.who, call.page_request(call.user()))
    if not found.entries:
        _check_known(call)
    return page_answer(call, "mailboxes", found)


def _check_known(call: Call) -> None:
    """The caller is known to exist; of another user, whose name may be misspelt, something must be known."""
    if call.user() != call.who.user:
        call.engine.find_user(call.user())


async def peek(call: Call) -> Response:
    """Look at a page of what waits, without taking it."""
    limit = call.number("limit", MOST, 1) or 100
    found = await call.engine.peek(
        call.who, call.user(), limit + 1, call.number("after"), call.text("device"), call.text("prefix") or ""
    )
    shown = page(found, limit, _size)
    return _answer(shown, (), b',"next":%d' % shown[-1].nid if len(shown) < len(found) else b"")


async def purge(call: Call) -> Response:
    """Throw away what waits; the user is told with a GAP."""
    return json_answer({"purged": await call.engine.purge(call.who, call.user(), call.text("device"))})


class _Take(msgspec.Struct, forbid_unknown_fields=True):
    """``wait`` in seconds; ``upto`` and ``notices`` acknowledge the answer before this one."""

    device: str = POLL_DEVICE
    limit: int = 100
    wait: float = 0
    upto: int | None = None
    notices: tuple[int, ...] = ()


async def take(call: Call) -> Response:
    """The next notifications, waiting for the first; those that are not acknowledged come again."""
    call.gateway.check_open()
    wanted = await call.members(_Take)
    _check_self(call)
    if not 1 <= wanted.limit <= MOST:
        raise ParameterError(f"$.limit: must be from 1 to {MOST:,}")
    if not 0 <= wanted.wait <= call.gateway.config.limits.poll_seconds:
        raise ParameterError(f"$.wait: must be from 0 to {call.gateway.config.limits.poll_seconds:g} seconds")
    consumer = await call.gateway.polls.take(
        call.who, wanted.device, call.address, wanted.wait, upto=wanted.upto, notices=wanted.notices
    )
    found = sorted(consumer.notifications.values(), key=lambda notified: notified.nid)
    shown = page(found, wanted.limit, _size)
    call.gateway.polls.note_answer(consumer, shown)
    return _answer(shown, tuple(page(list(consumer.notices.values()), MOST, _notice_size)))


class _Acknowledgement(msgspec.Struct, forbid_unknown_fields=True):
    device: str = POLL_DEVICE
    upto: int | None = None
    notices: tuple[int, ...] = ()


async def acknowledge(call: Call) -> Response:
    """Confirm everything up to a nid, and notices, that ``take`` returned to this device."""
    wanted = await call.members(_Acknowledgement)
    _check_self(call)
    await call.gateway.polls.acknowledge(
        call.who, wanted.device, call.address, upto=wanted.upto, notices=wanted.notices
    )
    return Response(status_code=204)


def _check_self(call: Call) -> None:
    """A mailbox is taken from by its user alone: whoever takes is a device of that user."""
    authorise(call.who, "read", user=call.user())
    if call.user() != call.who.user:
        raise Unknown(f"only {call.user()!r} takes from this mailbox; peek looks without taking")


def _size(notified: OutgoingNotification) -> int:
    return len(notified.event)


def _notice_size(notice: Gap | SubCancelled) -> int:
    return len(_encode(notice))


def _answer(
    notifications: Sequence[OutgoingNotification], notices: tuple[Gap | SubCancelled, ...], more: bytes = b""
) -> Response:
    parts = b",".join(notified.message() for notified in notifications)
    return raw_answer(b'{"notifications":[%b],"notices":%b%b}' % (parts, _encode(notices), more))


# -- sessions ----------------------------------------------------------------------------------------------------------


async def sessions(call: Call) -> Response:
    return page_answer(call, "sessions", call.engine.page_of_sessions(call.who, call.page_request()))


async def session(call: Call) -> Response:
    """The devices of one user."""
    found = call.engine.page_of_sessions(call.who, call.page_request(call.user()))
    if not found.entries:
        _check_known(call)
    return page_answer(call, "sessions", found)


async def end_session(call: Call) -> Response:
    """End the session of a device, or all of the user's; subscriptions stay. ``forget`` gives the devices up."""
    forget = call.flag("forget")
    ended = call.engine.end_session(call.who, call.user(), call.text("device"), forget=forget)
    if not ended:
        raise Unknown(f"user {call.user()!r} has no such session")
    return json_answer({"ended": ended})


# --- ``POST /v1/events``: publish one event or many, in every form that CloudEvents gives them over HTTP -------------
#
# | content-type | body |
# |---|---|
# | ``application/json`` | an event in the flat form or a CloudEvent; an array of them is a batch |
# | ``application/cloudevents+json`` | a CloudEvent (structured mode) |
# | ``application/cloudevents-batch+json`` | an array of CloudEvents |
# | ``application/x-ndjson`` | an event a line |
# | any, with ``ce-specversion`` | the event's data; its context stands in ``ce-`` headers (binary mode) |
#
# The answer, 202, leaves when the events are on stable storage: all of them, or an error and none.


JSON, CLOUDEVENT = "application/json", "application/cloudevents+json"
BATCH, LINES = "application/cloudevents-batch+json", "application/x-ndjson"
PUBLISHER = "x-publisher-id"
_NO_CONTEXT = ("ce-data", "ce-data_base64", "ce-datacontenttype")


async def publish(call: Call) -> Response:
    """Store events; the answer is their acknowledgement."""
    call.gateway.check_open()
    binary = "ce-specversion" in call.request.headers
    if not binary:
        call.check_media(JSON, CLOUDEVENT, BATCH, LINES)
    raw = await call.body()
    single = binary or call.media == CLOUDEVENT or (call.media == JSON and raw.lstrip()[:1] != b"[")
    events = [_binary(call, raw)] if binary else _events(call, raw, single)
    events = [_attribute(event, call.request.headers.get(PUBLISHER)) for event in events]
    if parent := call.request.headers.get(TRACEPARENT):
        events = [with_trace(event, parent, call.request.headers.get(TRACESTATE)) for event in events]
    call.gateway.check_publish(call.who, len(events))
    call.note(events=len(events))
    positions = await call.engine.publish(call.who, events)
    if single:
        return json_answer({"id": events[0].id, "position": positions[0], "notificationId": events[0].id}, 202)
    return json_answer({"count": len(events), "positions": list(positions), "ids": [event.id for event in events]}, 202)


def _events(call: Call, raw: bytes, single: bool) -> list[Event]:
    limits, most = call.gateway.limits, call.gateway.config.limits.batch_events
    if single:
        return [_event(call, raw)]
    if call.media == LINES:
        parts = [line for line in raw.split(b"\n") if line.strip()]
    else:
        parts = split_batch(raw, limits=limits)
    if not parts:
        raise EventError("$: the batch has no event")
    if len(parts) > most:
        raise TooLargeError(f"the batch has {len(parts):,} events; the limit is {most:,}")
    return [_event(call, part, f"event {number} of the batch: ") for number, part in enumerate(parts)]


def _event(call: Call, raw: bytes, place: str = "") -> Event:
    limit = call.gateway.limits.event_bytes
    if len(raw) > limit:
        raise TooLargeError(f"{place}$: the event has {len(raw):,} bytes; the limit is {limit:,}")
    try:
        event = read_event(raw, default_id=uuid4().hex, limits=call.gateway.limits)
    except EventError as error:
        raise EventError(f"{place}{error}") from None
    if call.media in (CLOUDEVENT, BATCH) and not event.source:  # the media type promises CloudEvents, which have one
        raise EventError(f'{place}$.specversion: a CloudEvent has "specversion": "1.0", an id, a source and a type')
    return event


def _binary(call: Call, raw: bytes) -> Event:
    """CloudEvents' HTTP binding, binary content mode: headers are percent-encoded UTF-8."""
    members: dict[str, Any] = {}
    for name, value in call.request.headers.items():
        if name in _NO_CONTEXT:
            raise ParameterError(f"header {name}: the event's data is the body, and its type is in content-type")
        if name.startswith("ce-"):
            members[name[3:]] = _text(name, value)
    content = call.request.headers.get("content-type")
    if content:
        members["datacontenttype"] = content
    if raw:
        members.update(_data(call, raw))
    return read_event(members, limits=call.gateway.limits)


def _text(name: str, value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise ParameterError(f"header {name}: its percent-encoding is not UTF-8") from None


def _data(call: Call, raw: bytes) -> dict[str, Any]:
    limit = call.gateway.limits.event_bytes
    if len(raw) > limit:
        raise TooLargeError(f"the event's data have {len(raw):,} bytes; the limit is {limit:,}")
    if call.media == JSON or call.media.endswith("+json"):
        try:
            return {"data": parse_json(raw)}
        except EventError as error:
            raise EventError(f"$.data: the body must be JSON, as its content-type says: {error}") from None
    if call.media.startswith("text/"):
        try:
            return {"data": raw.decode()}
        except UnicodeDecodeError:
            raise EventError("$.data: the body is text that is not UTF-8") from None
    return {"data_base64": base64.b64encode(raw).decode()}


def _attribute(event: Event, publisher: str | None) -> Event:
    """An event without a source comes from the publisher that the request names, if it names one."""
    if publisher is None or event.source:
        return event
    return msgspec.structs.replace(event, source=publisher[:256])


class _Publisher(msgspec.Struct, forbid_unknown_fields=True):
    name: str


async def connect_publisher(call: Call) -> Response:
    """An id for a publisher, to be sent with its events; it is the source of those that name none."""
    name = (await call.members(_Publisher)).name
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in name[:64]).strip("-")
    if not plain:
        raise ParameterError("$.name: a publisher's name has at least one of A-Z a-z 0-9")
    return json_answer({"publisherId": f"publisher:{plain}-{uuid4().hex[:8]}", "name": name}, 201)


# --- ``/v1/replay``: events of the log through a filter, from a position or an instant on, an event a line -----------


async def replay(call: Call) -> Response:
    """By query: ``?filter=Price < 25&type=Tick&since=...``; ``semantic`` is a JSON object."""
    members: dict[str, Any] = {name: call.text(name) for name in ("filter", "syntax", "type")}
    members["semantic"] = _semantic(call.text("semantic"))
    record = _encode({"id": "replay", **{name: value for name, value in members.items() if value is not None}})
    return await _answer_replay(
        call, record, call.number("position"), call.instant("since"), call.number("limit", least=1)
    )


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
    return await _answer_replay(call, record, wanted.position, instant(wanted.since, "since"), wanted.limit)


async def _answer_replay(call: Call, record: bytes, position: int | None, since: Any, limit: int | None) -> Response:
    """The first event is found before the answer begins, so that an error is still an error."""
    call.note()
    damage: dict[str, None] = {}
    found = call.gateway.replay(call.who, record, position=position, since=since, limit=limit, damage=damage)
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


# --- ``/v1/dead-letters``: notifications that a webhook did not take, to be looked at, sent again or forgotten -------


async def dead_letters(call: Call) -> Response:
    """A page of the oldest ones: the caller's, or another user's for an administrator (``*``: everybody's)."""
    user = call.text("user") or call.who.user
    authorise(call.who, "read", user=user)
    limit = call.number("limit", MOST, 1) or 100
    found = call.gateway.letters.of(
        user, limit + 1, call.number("after") or 0, prefix=call.text("prefix") or "", most_bytes=PAGE_BYTES
    )
    shown = page(found, limit, lambda letter: len(letter.event))
    more = {"next": shown[-1].number} if len(shown) < len(found) else {}
    return json_answer({"dead_letters": [letter.members() for letter in shown], **more})


async def purge_dead_letters(call: Call) -> Response:
    user = call.text("user") or call.who.user
    authorise(call.who, "manage", user=user)
    return json_answer({"purged": call.gateway.letters.purge(user)})


async def forget_dead_letter(call: Call) -> Response:
    call.gateway.letters.forget(_letter(call).number)
    return Response(status_code=204)


async def retry_dead_letter(call: Call) -> Response:
    """Send it once more, after all that waits for its target now."""
    letter = _letter(call)
    call.gateway.webhooks.retry(letter)
    return json_answer({"number": letter.number, "retried": True}, 202)


def _letter(call: Call) -> DeadLetter:
    text = call.path("number")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ParameterError(f"the number of a dead letter is a whole number, not {text[:50]!r}")
    letter = call.gateway.letters.find(int(text))
    if letter is None or (letter.user != call.who.user and not call.who.admin):
        raise Unknown(f"there is no dead letter {text}")  # nobody learns which numbers others have
    authorise(call.who, "manage", user=letter.user)
    if letter.user != call.who.user:
        call.note(of=letter.user)
    return letter


# --- What operators ask: ``/healthz``, ``/readyz``, ``/metrics``, ``/v1/status`` -------------------------------------
#
# The first two need no token and say nothing but yes or no. Metrics and status name users' figures in sum only, yet
# they are for administrators, and for anyone on a loopback listener that is open to callers without a token.


_SLOWEST = 100


def healthz() -> Response:
    """The process answers."""
    return json_answer({"status": "ok"})


def readyz(gateway: Gateway) -> Response:
    """It accepts publications and subscriptions. While it loads what is stored, publications are accepted already."""
    engine = gateway.engine
    if gateway.draining:
        word = "draining"
    elif not engine.ready:
        word = "starting"
    elif engine.accepts:
        word = "ready"
    else:
        word = "trouble" if any(engine.troubles()[kind] for kind in STORING) else "loading"
    return json_answer({"status": word}, 200 if word == "ready" else 503)


async def metrics(call: Call) -> Response:
    _check(call)
    call.gateway.metrics.by["datagrams_refused"] = Counter(call.gateway.count_refused_datagrams())
    lags = {name: (one.notifications, one.seconds) for name, one in (await call.engine.lag()).items()}
    body = exposition(call.gateway.metrics, states(call.gateway), call.engine.troubles(), lags)
    return Response(body, 200, {"content-type": CONTENT_TYPE})


async def lag(call: Call) -> Response:
    """Where notifications wait for longest: the caller's mailboxes, or everybody's (``*``) for those who may see the
    metrics, who are told how much waits in all, too.
    """
    user, count = call.text("user"), call.number("limit", _SLOWEST, 1) or 10
    sees_all = call.gateway.identity.open or call.who.admin
    slowest = (
        call.engine.slowest_of_all(count) if user == "*" and sees_all else call.engine.slowest(call.who, user, count)
    )
    if not sees_all:
        return json_answer({"slowest": slowest})
    return json_answer({"classes": await call.engine.lag(), "slowest": slowest})


async def status(call: Call) -> Response:
    _check(call)
    return json_answer(call.engine.status())


def states(gateway: Gateway) -> dict[str, float]:
    """The engine's figures of this moment, and the connections; of damage, how much there is."""
    status = gateway.engine.status()
    del status["trouble"]  # has a metric of its own
    status["damage"] = len(gateway.engine.damage)
    found = {name: float(value) for name, value in status.items()}
    return {"connections": float(gateway.connections), **found}


def _check(call: Call) -> None:
    if not call.gateway.identity.open:
        authorise(call.who, "administer")
