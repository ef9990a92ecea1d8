"""The client: one session of one device with the service, whatever the transport.

It connects, resumes, renews and drops repeats by itself (``recado.protocols.session.agent``); the application
publishes, subscribes and looks at counts. Everything runs in the loop that entered ``async with``.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from math import isfinite
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from recado.client.driver import AgentDriver, Transport
from recado.client.errors import ClientError, Dropped, SessionEnded, TooManyInFlight, Unreachable, refusal
from recado.client.options import Options, make_transport
from recado.client.subscription import Subscription
from recado.errors import EventError
from recado.model.codec import read_event, write_flat
from recado.model.event import Event
from recado.protocols.session import commands as words
from recado.protocols.session import messages as m
from recado.protocols.session.agent import Agent
from recado.protocols.session.commands import AgentError
from recado.protocols.session.messages import Notify

# --- What an application publishes, as the JSON that is sent ---------------------------------------------------------
#
# ``("Tick", {"Price": 24.9})``, an ``Event``, or the members of an event in the flat form or as a CloudEvent. An event
# without an id gets one that nobody else draws: it makes the event the same one if it has to be sent again.


_encode = msgspec.json.Encoder().encode
_PLAIN = (str, int, bool)


def ids() -> Iterator[str]:
    """Names for events: a random one for the run, and a number."""
    run = secrets.token_hex(8)
    return (f"{run}-{number}" for number in count(1))


def event_json(
    what: str | Event | Mapping[str, Any] | bytes, attributes: Mapping[str, Any] | None, id: Iterator[str]
) -> bytes:
    """One event as JSON; an EventError if it cannot be one."""
    if isinstance(what, str):
        return _flat({"id": next(id), "type": what, **(attributes or {})})
    if attributes is not None:
        raise EventError("attributes go with a type, as in publish('Tick', {'Price': 24.9})")
    if isinstance(what, Event):
        return write_flat(what if what.id else msgspec.structs.replace(what, id=next(id)))
    if isinstance(what, bytes):
        return write_flat(read_event(what, default_id=next(id)))
    return _flat(dict(what) if what.get("id") else {**what, "id": next(id)})


def _flat(members: dict[str, Any]) -> bytes:
    """Plain members are sent as they are, since the service checks them anyway; others are checked and spelt here."""
    for value in members.values():
        kind = type(value)
        if kind not in _PLAIN and not (kind is float and isfinite(value)):
            if "specversion" in members:
                read_event(members)
                return _encode(members)
            return write_flat(read_event(members))
    return _encode(members)


# --- Where notifications wait in the client: one queue for each subscription that the application iterates over
#
# What no subscription asks for is held, unacknowledged, until one does (``follow``): the service gives at most a window
# of it, or some more if there are other subscriptions (``recado.protocols.session.state``), and takes it back when
# the session ends. So nothing is lost; ``unclaimed`` counts them. Only what is left of a subscription without an id,
# which ended with its iterator or with an earlier run, is for nobody.


class Inboxes:
    """``ephemeral_prefix`` begins the names of this device's subscriptions without an id."""

    def __init__(self, ephemeral_prefix: str) -> None:
        self.ephemeral_prefix = ephemeral_prefix
        self._by_id: dict[str, Subscription] = {}
        self._rest: Subscription | None = None
        self._held: dict[str, deque[Notify]] = {}

    @property
    def unclaimed(self) -> int:
        return sum(map(len, self._held.values()))

    @property
    def subscriptions(self) -> list[Subscription]:
        return list(self._by_id.values())

    def put(self, notify: Notify) -> bool:
        """Is it for anybody, now or later?"""
        subscription = self._by_id.get(notify.sub_id) or self._rest
        if subscription is not None:
            subscription.put(notify)
        elif notify.sub_id.startswith(self.ephemeral_prefix):
            return False
        else:
            self._held.setdefault(notify.sub_id, deque()).append(notify)
        return True

    def add(self, subscription: Subscription) -> None:
        """A subscription takes over what is held for it; the one without an id takes all that nobody asks for."""
        if not subscription.id:
            self._rest = subscription
            names = list(self._held)
        else:
            self._by_id[subscription.id] = subscription
            names = [subscription.id]
        held = [notify for name in names for notify in self._held.pop(name, ())]
        for notify in sorted(held, key=lambda one: one.nid):
            subscription.put(notify)

    def ephemeral(self) -> list[str]:
        return [name for name, one in self._by_id.items() if not one.durable]

    def finish(self) -> None:
        """Acknowledge what loops have in hand."""
        for one in self._everyone():
            one.finish()

    def cancelled(self, sub_id: str, reason: str) -> None:
        subscription = self._by_id.get(sub_id)
        if subscription is not None:
            subscription.cancelled = reason
            subscription.end()

    def end(self, sub_id: str) -> None:
        subscription = self._by_id.pop(sub_id, None)
        if subscription is not None:
            subscription.end()

    def end_all(self, error: Exception | None) -> None:
        for one in self._everyone():
            one.end(error)

    def _everyone(self) -> list[Subscription]:
        return [*self._by_id.values(), *([self._rest] if self._rest is not None else [])]


# --- The session behind a client: its life, its counts, its requests, and what the agent tells -----------------------
#
# ``Client`` adds what an application does with it.


_log = logging.getLogger("recado.client")


class ClientSession:
    """Entered and left with ``async with``.

    ``delivered`` counts the notifications that the application is done with, ``pending`` those that are here and not
    acknowledged, ``dropped`` those that the service dropped and told about; ``unanswered`` requests wait for the
    service, and ``given_up`` ones were dropped from the outbox.
    """

    def __init__(self, options: Options, transport: Transport | None = None) -> None:
        self.options = options
        self.device = options.device
        self.user = options.target.user
        self.delivered = 0
        self.dropped = 0
        self.gaps: list[m.Gap] = []
        self.inboxes = Inboxes(f"tmp-{options.device}-")
        self._transport = transport
        self._ids = ids()
        self._open: dict[int, None] = {}
        self._taken: list[int] = []
        self._publishing = 0
        self._room: list[asyncio.Future[None]] = []
        self._ended: ClientError | None = None
        self._closing = False

    # -- life

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()
        transport = self._transport or make_transport(self.options)
        self._agent = Agent(self.options.agent(transport.greets))
        self._driver = AgentDriver(self._agent, transport, self, self.options.state)
        self._driver.start()
        try:
            async with asyncio.timeout(self.options.timeout or None):
                await self._started
        except TimeoutError:
            await self._driver.close()
            raise Unreachable(self._not_reached()) from None
        except BaseException:
            await self._driver.close()
            raise
        return self

    def _not_reached(self) -> str:
        where, why = self.options.target.shown(), self._driver.last_problem or "nothing answers"
        if self._agent.status == "CONNECTED":
            return f"the event service at {where} answers, but is still loading what it holds; try again in a moment"
        return f"no event service at {where} ({why}); start one with: recado serve"

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(finish=error is None)

    async def close(self, *, finish: bool = True, drain: float = 5.0) -> None:
        """End the session: wait for answers (at most ``drain`` seconds), end what is not durable, say good-bye."""
        if self._closing:
            return
        self._closing = True
        if finish:
            self.inboxes.finish()
        if self._ended is None:
            with suppress(TimeoutError, ClientError):
                async with asyncio.timeout(drain if finish else min(drain, 1.0)):
                    await self._wind_up()
            self._report_taken()
            self._driver.ask(words.Leave())
        await self._driver.close()

    async def _wind_up(self) -> None:
        if self.state == "CONNECTED":
            ephemeral = self.inboxes.ephemeral()
            cancelled = [self._request(words.CancelSubscription, sub_id) for sub_id in ephemeral]
            await asyncio.gather(*cancelled, return_exceptions=True)
            await self.flush()

    async def flush(self) -> None:
        """Wait until the service has answered everything that was published."""
        while self._publishing and self._ended is None:
            await self._wait_for_room()

    # -- how it stands

    @property
    def state(self) -> Literal["CONNECTED", "DISCONNECTED", "ENDED"]:
        return "ENDED" if self._ended is not None else self._agent.status

    @property
    def pending(self) -> int:
        return len(self._open)

    @property
    def unanswered(self) -> int:
        return len(self._agent.session.outbox.waiting)

    @property
    def given_up(self) -> int:
        return self._agent.session.outbox.dropped

    @property
    def repeated(self) -> int:
        """Notifications that came again and were not handed out again."""
        return self._agent.session.inbox.repeated

    # -- requests

    def _request(self, kind: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Ask the agent for something that is answered once."""
        self._check_open()
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(_retrieved)
        fields = kind.__struct_fields__[: len(arguments)]  # type: ignore[attr-defined]  # all requests are Structs
        self._ask(kind(**dict(zip(fields, arguments, strict=True)), ref=(future,)))
        return future

    def _ask(self, request: Any) -> None:
        try:
            self._driver.ask(request)
        except AgentError as error:
            raise Unreachable(str(error)) from None

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _published(self) -> None:
        """One publication less is unanswered."""
        self._publishing -= 1
        if self._room:
            waiters, self._room = self._room, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def _wait_for_room(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._room.append(waiter)
        await waiter

    # -- acknowledgements

    def took(self, nid: int) -> bool:
        """The application is done with a notification; was it open?"""
        if nid not in self._open:
            return False
        self.delivered += 1
        self.let_go(nid)
        return True

    def let_go(self, nid: int) -> None:
        """Confirm it, whether the application had it or nobody wants it any more."""
        self._open.pop(nid, None)
        if not self._taken:
            self._loop.call_soon(self._report_taken)
        self._taken.append(nid)

    def _report_taken(self) -> None:
        if self._taken:
            taken, self._taken = self._taken, []
            self._driver.ask(words.Took(taken))

    # -- what the agent tells

    def notified(self, notify: m.Notify) -> None:
        if self.inboxes.put(notify):
            self._open[notify.nid] = None
        else:
            self.let_go(notify.nid)

    def answered(self, ref: Any, answer: words.Answer) -> None:
        """The ref of a publication is its future; that of any other request has the future in a tuple."""
        if type(ref) is tuple:
            future = ref[0]
        else:
            future = ref
            self._published()
        if future.done():
            return
        if isinstance(answer, m.Error):
            future.set_exception(refusal(answer.code, answer.text))
        elif isinstance(answer, m.Ok) and answer.position is not None:
            future.set_result(answer.position)
        else:
            future.set_result(answer)

    def _gave_up(self, ref: Any, reason: str) -> None:
        if type(ref) is tuple:
            future = ref[0]
        else:
            future = ref
            self._published()
        if not future.done():
            future.set_exception(Dropped(reason))

    def told(self, fact: Any) -> None:
        match fact:
            case words.Streamed((_, events), replayed):
                events.append(replayed)
            case words.Connected(_, welcome):
                self._connected(welcome)
            case words.Started(sub_ids):
                self._tidy(sub_ids)
                self._begun()
            case words.Disconnected(reason):
                self._disconnected(reason)
            case words.Ended(reason, code):
                self._end(reason, code)
            case words.Dropped(ref, reason):
                self._gave_up(ref, reason)
            case words.BegunAnew(reason):
                _log.warning("%s: this device begins anew, and notifications may come a second time", reason)
            case words.Crowded(sub_id, held):
                _log.warning("nobody reads subscription %s: %d notifications of it hold up all others", sub_id, held)
            case words.GapFound(gap):
                self._gap(gap)
            case words.Cancelled(sub_id, reason, action):
                self._cancelled(sub_id, reason, action)
            case words.RenewalRefused(sub_id, _, text):
                self._cancelled(sub_id, f"it could not be renewed: {text}", "none")

    def _connected(self, welcome: m.Welcome | None) -> None:
        if welcome is not None:
            wanted, self.user, self.device = self.options.target.user, welcome.user, welcome.device
            if wanted not in ("", welcome.user):
                self._end(f"the token is that of {welcome.user!r}, not of {wanted!r}; name no user beside it", 403)
                self._driver.ask(words.Leave())
                return
        self._tell(self.options.on_state, "CONNECTED", "")
        if self._agent.session.begun:
            self._begun()

    def _begun(self) -> None:
        if not self._started.done():
            self._started.set_result(None)

    def _tidy(self, sub_ids: Iterable[str]) -> None:
        """Subscriptions of an earlier run of this device that was killed: nobody will ask for them again."""
        for sub_id in sub_ids:
            if sub_id.startswith(self.inboxes.ephemeral_prefix):
                self._request(words.CancelSubscription, sub_id)

    def _disconnected(self, reason: str) -> None:
        problem = self._driver.last_problem or reason
        _log.info("not connected: %s", problem)
        self._tell(self.options.on_state, "DISCONNECTED", problem)
        if not self._started.done() and (self.options.timeout == 0 or self._driver.permanent):
            self._started.set_exception(Unreachable(self._not_reached()))

    def _end(self, reason: str, code: int) -> None:
        error = refusal(code, reason) if code else SessionEnded(f"the session is over: {reason}")
        if self._ended is not None:
            return
        self._ended = error
        if not self._started.done():
            self._started.set_exception(error)
        self.inboxes.end_all(None if self._closing else error)
        for waiter in self._room:
            if not waiter.done():
                waiter.set_result(None)
        self._tell(self.options.on_state, "ENDED", reason)

    def _gap(self, gap: m.Gap) -> None:
        self.dropped += gap.count
        self.gaps.append(gap)
        _log.warning("the service dropped %d notifications (%s)", gap.count, gap.reason)
        self._tell(self.options.on_gap, gap)

    def _cancelled(self, sub_id: str, reason: str, action: str) -> None:
        _log.warning("subscription %s was cancelled (%s); next: %s", sub_id, reason, action)
        if action == "none":
            self.inboxes.cancelled(sub_id, reason)
        self._tell(self.options.on_cancel, sub_id, reason, action)

    def _tell(self, listener: Callable[..., None] | None, *arguments: Any) -> None:
        if listener is not None:
            try:
                listener(*arguments)
            except Exception:  # noqa: BLE001  # the application's own; the session goes on
                _log.exception("%s failed", getattr(listener, "__name__", "a listener"))


def _retrieved(future: asyncio.Future[Any]) -> None:
    """Whoever does not await an answer is not told about it again when the loop ends."""
    if not future.cancelled():
        future.exception()


# --- The client: one session of one device with the service, whatever the transport ----------------------------

_PAGE = 1_000

Publishable = str | Event | Mapping[str, Any] | bytes


class Client(ClientSession):
    """Made by ``recado.connect``; use it with ``async with``."""

    # -- publish

    async def publish(self, what: Publishable, attributes: Mapping[str, Any] | None = None) -> int:
        """Publish one event; its position in the log, when it is on stable storage."""
        while self._publishing >= self.options.in_flight:
            await self._wait_for_room()
        return await self.publish_soon(what, attributes)

    def publish_soon(self, what: Publishable, attributes: Mapping[str, Any] | None = None) -> asyncio.Future[int]:
        """The same without waiting; TooManyInFlight if ``in_flight`` of them are unanswered."""
        if self._publishing >= self.options.in_flight:
            raise TooManyInFlight(f"{self._publishing:,} publications are unanswered, which is the bound; await room()")
        self._check_open()
        event = event_json(what, attributes, self._ids)
        future: asyncio.Future[int] = self._loop.create_future()
        self._ask(words.PublishEvent(msgspec.Raw(event), future))
        self._publishing += 1
        return future

    async def publish_all(self, events: Iterable[Publishable]) -> list[int]:
        """Publish many, ``in_flight`` at a time, in order; their positions."""
        futures = []
        for event in events:
            while self._publishing >= self.options.in_flight:
                await self._wait_for_room()
            futures.append(self.publish_soon(event))
        return list(await asyncio.gather(*futures))

    async def room(self) -> None:
        """Wait until ``publish_soon`` may be called again."""
        while self._publishing >= self.options.in_flight:
            await self._wait_for_room()

    # -- subscribe

    def subscribe(
        self,
        filter: str | None = None,
        *,
        type: str | None = None,
        id: str | None = None,
        constraints: Iterable[Mapping[str, Any]] = (),
        ttl: float | None = None,
        expires_at: str | None = None,
        scope: Literal["all", "this device"] | None = None,
        semantic: Mapping[str, Any] | bool | None = None,
        auto_ack: bool = True,
        **more: Any,
    ) -> Subscription:
        """Make a subscription; iterate over what it returns.

        With an ``id`` it is durable: it outlives this client, until it expires, and the same call takes it up again,
        with everything that came meanwhile. Without one it ends with the client and is for this device only.
        """
        durable = id is not None
        name = id if id is not None else f"{self.inboxes.ephemeral_prefix}{next(self._ids)}"
        record = {
            "id": name,
            "filter": filter,
            "type": type,
            "constraints": [dict(one) for one in constraints] or None,
            "ttl": ttl,
            "expires_at": expires_at,
            "scope": scope or ("all" if durable else "this device"),
            "semantic": _semantic(semantic),
            **more,
        }
        confirmed = self._request(words.MakeSubscription, {key: one for key, one in record.items() if one is not None})
        subscription = Subscription(self, name, durable=durable, auto_ack=auto_ack, confirmed=confirmed)
        self.inboxes.add(subscription)
        return subscription

    def follow(self, id: str | None = None, *, auto_ack: bool = True) -> Subscription:
        """Notifications of a subscription that the service holds already; without an id, of all that nobody takes."""
        confirmed: asyncio.Future[Any] = self._loop.create_future()
        confirmed.set_result(None)
        subscription = Subscription(self, id or "", durable=True, auto_ack=auto_ack, confirmed=confirmed)
        self.inboxes.add(subscription)
        return subscription

    async def subscriptions(self) -> list[dict[str, Any]]:
        """What the service holds for this user."""
        answer = await self._request(words.ListSubscriptions)
        return list(answer.subs)

    async def renew(self, id: str, *, ttl: float | None = None, expires_at: str | None = None) -> str:
        """Extend a subscription; until when it is granted now."""
        answer = await self._request(words.RenewSubscription, id, ttl, expires_at)
        return str(answer.expires_at)

    async def cancel(self, id: str) -> None:
        """End a subscription; what came before can still be taken."""
        await self._request(words.CancelSubscription, id)
        self.inboxes.end(id)

    async def discard(self) -> None:
        """End all subscriptions of this user that are not for another device, and empty the mailbox."""
        await self._request(words.DiscardSubscriptions)

    async def replay(
        self,
        filter: str | None = None,
        *,
        type: str | None = None,
        position: int | None = None,
        since: str | None = None,
        limit: int | None = None,
        semantic: Mapping[str, Any] | bool | None = None,
        on_damage: Callable[[str], None] = _log.warning,
    ) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """Events of the log that pass a filter, from a position or an instant on: (position, members).

        It asks for a page at a time, so a slow reader holds nothing up, and ends where the log ends. ``on_damage`` is
        told of positions that the service could not read.
        """
        members = {"id": "replay", "filter": filter or None, "type": type or None, "semantic": _semantic(semantic)}
        record = {name: value for name, value in members.items() if value is not None}
        left = limit
        while left is None or left > 0:
            page = _PAGE if left is None else min(_PAGE, left)
            events: list[m.Replayed] = []
            future: asyncio.Future[Any] = self._loop.create_future()
            self._ask(words.ReplayLog(record, position, since, page, (future, events)))
            answer = await future
            for text in answer.damage:
                on_damage(f"the replay is not whole: {text}")
            for one in events:
                yield one.position, msgspec.json.decode(one.event)
            if len(events) < page:
                return
            position, since = events[-1].position + 1, None
            left = None if left is None else left - len(events)


def _semantic(wanted: Mapping[str, Any] | bool | None) -> dict[str, Any] | None:
    """The member of a record; True means the defaults of the service."""
    if wanted is None or wanted is False:
        return None
    return {} if wanted is True else dict(wanted)
