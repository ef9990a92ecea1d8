"""The session behind a client: its life, its requests, its counts, and what the agent tells about it.

The agent (``recado.protocols.session.agent``) connects, resumes, renews and drops repeats by itself; an ``AgentDriver``
runs it. A ``Session`` turns requests into futures and notifications into the queues of subscriptions. Everything runs
in the loop that opened it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Literal

import msgspec

from recado.client.driver import AgentDriver, Transport
from recado.client.errors import ClientError, Dropped, SessionEnded, TooManyInFlight, Unreachable, refusal
from recado.client.options import Options, make_transport
from recado.client.subscription import ClientSubscription
from recado.protocols.session import commands as words
from recado.protocols.session import messages as m
from recado.protocols.session.agent import Agent
from recado.protocols.session.commands import AgentError

_log = logging.getLogger("recado.client")


class Inboxes:
    """Where notifications wait in the client: one queue for each subscription that the application iterates over.

    What no subscription asks for is held, unacknowledged, until one does (``Client.follow``): the service gives at most
    a window of it, or some more if there are other subscriptions (``recado.protocols.session.state``), and takes it
    back when the session ends. So nothing is lost; ``unclaimed`` counts them. Only what is left of a subscription
    without an id, which ended with its iterator or with an earlier run, is for nobody. ``ephemeral_prefix`` begins the
    names of this device's subscriptions without an id.
    """

    def __init__(self, ephemeral_prefix: str) -> None:
        self.ephemeral_prefix = ephemeral_prefix
        self._by_id: dict[str, ClientSubscription] = {}
        self._rest: ClientSubscription | None = None
        self._held: dict[str, deque[m.Notify]] = {}

    @property
    def unclaimed(self) -> int:
        return sum(map(len, self._held.values()))

    def put(self, notify: m.Notify) -> bool:
        """Is it for anybody, now or later?"""
        subscription = self._by_id.get(notify.sub_id) or self._rest
        if subscription is not None:
            subscription.put(notify)
        elif notify.sub_id.startswith(self.ephemeral_prefix):
            return False
        else:
            self._held.setdefault(notify.sub_id, deque()).append(notify)
        return True

    def add(self, subscription: ClientSubscription) -> None:
        """A subscription takes over what is held for it; the one without an id takes all that nobody asks for.

        If another object stood for the same one, the new one has its place: that takes what the other was not asked
        for yet, and the other's loop ends.
        """
        if not subscription.id:
            before, self._rest = self._rest, subscription
            names = list(self._held)
        else:
            before = self._by_id.get(subscription.id)
            self._by_id[subscription.id] = subscription
            names = [subscription.id]
        held = [notify for name in names for notify in self._held.pop(name, ())]
        if before is not None:
            held += before.hand_over()
        for notify in sorted(held, key=lambda one: one.nid):
            subscription.put(notify)

    def ephemeral_ids(self) -> list[str]:
        return [name for name, one in self._by_id.items() if not one.durable]

    def finish(self) -> None:
        """Acknowledge what loops have in hand."""
        for one in self._everyone():
            one.finish()

    def end_cancelled(self, sub_id: str, reason: str) -> None:
        """The service cancelled a subscription: its loop ends after what is here, and can see why."""
        subscription = self._by_id.get(sub_id)
        if subscription is not None:
            subscription.cancelled = reason
            subscription.end()

    def remove(self, sub_id: str) -> None:
        """The application cancelled a subscription: its loop ends after what is here."""
        subscription = self._by_id.pop(sub_id, None)
        if subscription is not None:
            subscription.end()

    def end_all(self, error: Exception | None) -> None:
        for one in self._everyone():
            one.end(error)

    def _everyone(self) -> list[ClientSubscription]:
        return [*self._by_id.values(), *([self._rest] if self._rest is not None else [])]


class Session:
    """One session of one device. A Client shows its counts, and says what they mean."""

    def __init__(self, options: Options, transport: Transport | None = None) -> None:
        self.options = options
        self.device = options.device
        self.user = options.target.user
        self.delivered = 0
        self.dropped = 0
        self.gaps: list[m.Gap] = []
        self.inboxes = Inboxes(f"tmp-{options.device}-")
        self._transport = transport
        self._open: dict[int, None] = {}
        self._acknowledged: list[int] = []
        self._publishing = 0
        self._room: list[asyncio.Future[None]] = []
        self._ended: ClientError | None = None
        self._closing = False

    # -- life

    async def open(self) -> None:
        """Connect and carry out the start policy; Unreachable, NotAllowed or Refused if that does not work out."""
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()
        transport = self._transport or make_transport(self.options)
        self._agent = Agent(self.options.agent_settings(transport.greets))
        self._driver = AgentDriver(self._agent, transport, self, self.options.state)
        self._driver.start()
        try:
            async with asyncio.timeout(self.options.timeout or None):
                await self._started
        except TimeoutError:
            await self._driver.close()
            raise self._unreachable() from None
        except BaseException:
            await self._driver.close()
            raise

    def _unreachable(self) -> Unreachable:
        where, why = self.options.target.description(), self._driver.last_problem or "nothing answers"
        if self._agent.status == "CONNECTED":
            return Unreachable(
                f"the event service at {where} answers, but is still loading what it holds; try again in a moment"
            )
        return Unreachable(f"no event service at {where} ({why}); start one with: recado serve")

    async def close(self, *, finish: bool, drain: float, forget: bool) -> None:
        """As ``Client.close`` says."""
        if self._closing:
            return
        self._closing = True
        if finish:
            self.inboxes.finish()
        if self._ended is None:
            with suppress(TimeoutError, ClientError):
                async with asyncio.timeout(drain if finish else min(drain, 1.0)):
                    await self._wind_up()
            self._report_acknowledged()
            self._driver.ask(words.Leave(forget))
        await self._driver.close()

    async def _wind_up(self) -> None:
        if self.state == "CONNECTED":
            ephemeral = self.inboxes.ephemeral_ids()
            cancelled = [self.request(words.CancelSubscription, sub_id) for sub_id in ephemeral]
            await asyncio.gather(*cancelled, return_exceptions=True)
            await self.flush()

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
        return self._agent.session.inbox.repeated

    # -- requests

    def request(self, kind: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Ask the agent for something that is answered once; the answer, or an exception, will be in the future."""
        if self._ended is not None:
            raise self._ended
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(_retrieve)
        self._ask(kind(*arguments, ref=(future,)))
        return future

    async def replay(
        self, record: dict[str, Any], position: int | None, since: str | None, limit: int
    ) -> tuple[list[m.Replayed], tuple[str, ...]]:
        """A page of the log: the events that pass, and what could not be read."""
        events: list[m.Replayed] = []
        future: asyncio.Future[Any] = self._loop.create_future()
        self._ask(words.ReplayLog(record, position, since, limit, (future, events)))
        answer = await future
        return events, tuple(answer.damage)

    def _ask(self, request: Any) -> None:
        try:
            self._driver.ask(request)
        except AgentError as error:
            raise Unreachable(str(error)) from None

    # -- publications

    @property
    def is_full(self) -> bool:
        """Are as many publications unanswered as ``in_flight`` allows?"""
        return self._publishing >= self.options.in_flight

    def check_room(self) -> None:
        """Raise what stands against another publication."""
        if self.is_full:
            raise TooManyInFlight(f"{self._publishing:,} publications are unanswered, which is the bound; await room()")
        if self._ended is not None:
            raise self._ended

    def publish(self, event: bytes) -> asyncio.Future[int]:
        """Send one event as JSON, after ``check_room``; its position will be in the future."""
        future: asyncio.Future[int] = self._loop.create_future()
        self._ask(words.PublishEvent(msgspec.Raw(event), future))
        self._publishing += 1
        return future

    async def room(self) -> None:
        while self.is_full:
            await self._wait_for_answer()

    async def flush(self) -> None:
        while self._publishing and self._ended is None:
            await self._wait_for_answer()

    async def _wait_for_answer(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._room.append(waiter)
        await waiter

    def _wake_publishers(self) -> None:
        waiters, self._room = self._room, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- subscriptions

    def add_subscription(
        self, name: str, *, durable: bool, auto_ack: bool, confirmed: asyncio.Future[Any] | None = None
    ) -> ClientSubscription:
        """A queue for a subscription; without ``confirmed`` the service holds it already."""
        if confirmed is None:
            confirmed = self._loop.create_future()
            confirmed.set_result(None)
        subscription = ClientSubscription(self, name, durable=durable, auto_ack=auto_ack, confirmed=confirmed)
        self.inboxes.add(subscription)
        return subscription

    async def renew(self, sub_id: str, ttl: float | None = None, expires_at: str | None = None) -> str:
        answer = await self.request(words.RenewSubscription, sub_id, ttl, expires_at)
        return str(answer.expires_at)

    async def cancel(self, sub_id: str) -> None:
        await self.request(words.CancelSubscription, sub_id)
        self.inboxes.remove(sub_id)

    # -- acknowledgements

    def acknowledge(self, nid: int) -> bool:
        """The application is done with a notification; was it open?"""
        if nid not in self._open:
            return False
        self.delivered += 1
        self.release(nid)
        return True

    def release(self, nid: int) -> None:
        """Confirm it, whether the application had it or nobody wants it any more."""
        self._open.pop(nid, None)
        if not self._acknowledged:
            self._loop.call_soon(self._report_acknowledged)
        self._acknowledged.append(nid)

    def _report_acknowledged(self) -> None:
        if self._acknowledged:
            nids, self._acknowledged = self._acknowledged, []
            self._driver.ask(words.Took(nids))

    # -- what the agent tells

    def notified(self, notify: m.Notify) -> None:
        if self.inboxes.put(notify):
            self._open[notify.nid] = None
        else:
            self.release(notify.nid)

    def answered(self, ref: Any, answer: words.Answer) -> None:
        future = self._take_future(ref)
        if future.done():
            return
        if isinstance(answer, m.Error):
            future.set_exception(refusal(answer.code, answer.text))
        elif isinstance(answer, m.Ok) and answer.position is not None:
            future.set_result(answer.position)
        else:
            future.set_result(answer)

    def _take_future(self, ref: Any) -> asyncio.Future[Any]:
        """The ref of a publication is its future; that of any other request has the future in a tuple."""
        future: asyncio.Future[Any]
        if type(ref) is tuple:
            (future,) = ref[:1]
            return future
        future = ref
        self._publishing -= 1
        if self._room:
            self._wake_publishers()
        return future

    def told(self, fact: Any) -> None:
        match fact:
            case words.Streamed((_, events), replayed):
                events.append(replayed)
            case words.Connected(_, welcome):
                self._on_connected(welcome)
            case words.Started(sub_ids):
                self._cancel_leftovers(sub_ids)
                self._on_started()
            case words.Disconnected(reason):
                self._on_disconnected(reason)
            case words.Ended(reason, code):
                self._end(reason, code)
            case words.Dropped(ref, reason):
                future = self._take_future(ref)
                if not future.done():
                    future.set_exception(Dropped(reason))
            case words.BegunAnew(reason):
                _log.warning("%s: this device begins anew, and notifications may come a second time", reason)
            case words.Crowded(sub_id, held):
                _log.warning("nobody reads subscription %s: %d notifications of it hold up all others", sub_id, held)
            case words.GapFound(gap):
                self._on_gap(gap)
            case words.Cancelled(sub_id, reason, action):
                self._on_cancelled(sub_id, reason, action)
            case words.RenewalRefused(sub_id, _, text):
                self._on_cancelled(sub_id, f"it could not be renewed: {text}", "none")

    def _on_connected(self, welcome: m.Welcome | None) -> None:
        if welcome is not None:
            wanted, self.user, self.device = self.options.target.user, welcome.user, welcome.device
            if wanted not in ("", welcome.user):
                self._end(f"the token is that of {welcome.user!r}, not of {wanted!r}; name no user beside it", 403)
                self._driver.ask(words.Leave())
                return
        _call(self.options.on_state, "CONNECTED", "")
        if self._agent.session.begun:
            self._on_started()

    def _on_started(self) -> None:
        if not self._started.done():
            self._started.set_result(None)

    def _cancel_leftovers(self, sub_ids: Iterable[str]) -> None:
        """Subscriptions of an earlier run of this device that was killed: nobody will ask for them again."""
        for sub_id in sub_ids:
            if sub_id.startswith(self.inboxes.ephemeral_prefix):
                self.request(words.CancelSubscription, sub_id)

    def _on_disconnected(self, reason: str) -> None:
        problem = self._driver.last_problem or reason
        _log.info("not connected: %s", problem)
        _call(self.options.on_state, "DISCONNECTED", problem)
        if not self._started.done() and (self.options.timeout == 0 or self._driver.permanent):
            self._started.set_exception(self._unreachable())

    def _end(self, reason: str, code: int) -> None:
        error = refusal(code, reason) if code else SessionEnded(f"the session is over: {reason}")
        if self._ended is not None:
            return
        self._ended = error
        if not self._started.done():
            self._started.set_exception(error)
        self.inboxes.end_all(None if self._closing else error)
        self._wake_publishers()
        _call(self.options.on_state, "ENDED", reason)

    def _on_gap(self, gap: m.Gap) -> None:
        self.dropped += gap.count
        self.gaps.append(gap)
        _log.warning("the service dropped %d notifications (%s)", gap.count, gap.reason)
        _call(self.options.on_gap, gap)

    def _on_cancelled(self, sub_id: str, reason: str, action: str) -> None:
        _log.warning("subscription %s was cancelled (%s); next: %s", sub_id, reason, action)
        if action == "none":
            self.inboxes.end_cancelled(sub_id, reason)
        _call(self.options.on_cancel, sub_id, reason, action)


def _call(listener: Callable[..., None] | None, *arguments: Any) -> None:
    if listener is not None:
        try:
            listener(*arguments)
        except Exception:  # noqa: BLE001  # the application's own; the session goes on
            _log.exception("%s failed", getattr(listener, "__name__", "a listener"))


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Whoever does not await an answer is not told about it again when the loop ends."""
    if not future.cancelled():
        future.exception()
