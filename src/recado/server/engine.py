"""The engine of a service: everything between the ways in and the files. It has no listener of its own.

    publish -> authorise, check -> log committer (fsync) -> acknowledge
    log -> dispatcher (match) -> broker -> effects -> consumers
                                    |
                                    state writer, in the background

The log is the truth and the mailboxes are derived from it: the store keeps mailboxes together with the position up to
which they account for the log, and what lies beyond is dispatched again after a crash, with the same nids. So an
acknowledged event is never lost, whenever the process dies, and a repeated notification is recognised.

All methods are called on the thread of the event loop that ``open`` ran on. ``ready`` from the moment on that the log
is open, when events are accepted; ``listed`` when mailboxes, from which is delivered, and subscriptions are in memory;
``loaded`` when events are matched, too, which subscribing needs.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from heapq import nlargest, nsmallest
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from recado.broker import stimuli as s
from recado.broker.core import Broker
from recado.broker.persistence import matchable
from recado.broker.state import ORDINAL_BITS, WAITING, Bounds, BrokerSettings, Mailbox, SubscriptionState, User
from recado.broker.stimuli import Effect, Stimulus
from recado.errors import RecadoError
from recado.matching.undecided import is_narrow
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.model.limits import LIMITS
from recado.model.subscription import Subscription
from recado.net.clock import SteadyClock
from recado.protocols.session.messages import Welcome
from recado.server.canary import ServiceCanary
from recado.server.committer import Done, LogCommitter
from recado.server.config import Config, Semantics
from recado.server.consumer import Consumer, OutgoingNotification
from recado.server.dispatcher import Dispatcher
from recado.server.effects import EffectRunner
from recado.server.listing import Page, PageRequest, read_page
from recado.server.maintenance import Maintenance, check_target, copy_files, remember_newest
from recado.server.matching import Matcher, read_understanding
from recado.server.metrics import Metrics
from recado.server.permissions import Busy, Principal, Unknown, authorise, check_device
from recado.server.prefetch import SimilarityPrefetcher, take_kernels
from recado.server.recovery import Recovery
from recado.server.replay import Rows, Sieve, replay
from recado.server.requests import (
    Lag,
    MailboxInfo,
    SessionInfo,
    SubscriptionInfo,
    describe,
    describe_mailbox,
    describe_session,
    expiry,
    lag_seconds,
    mailboxes_of,
    read_request,
    sessions_of,
)
from recado.server.spans import find_spans
from recado.server.state_writer import StateWriter
from recado.server.storage import Storage
from recado.server.verification import Budgets, Slowed
from recado.store.log import LogSettings, SqliteEventLog
from recado.store.log.manifest import TAIL
from recado.store.log.settings import OnDamage
from recado.store.protocols import EventLog, StateStore
from recado.store.state import STATE_FILE, SqliteStateStore

Clock = Callable[[], datetime]
T = TypeVar("T")
REPLAY_THREADS = 4
STORING = ("loading", "storage", "log", "state")
"""Kinds of trouble with which the service is not ready."""
LOG_FOLDER = "log"
"""Of the event log, in the data folder."""
SWITCH_SECONDS = 0.0005
"""How long a busy loop may keep the log's thread from going on after each step: that is what an fsync waits for."""
_SETTLED = 2_000
"""Mailboxes that are looked at in one step."""
_DAMAGE_SHOWN = 100
"""Sentences about damage in the status; a file may have as much as it has rows."""
_log = logging.getLogger("recado.server")


class Engine:
    """Use ``open``. ``watchers`` are called with a subscription and whether it is active, when that changes.

    What is stored it knows through ``log`` and ``store`` alone; that both are files in the data folder, only ``open``,
    backups and the watch over free space know.
    """

    def __init__(self, config: Config, log: EventLog, store: StateStore, clock: Clock) -> None:
        self.config, self.metrics, self.log = config, Metrics(), log
        self.clock = clock
        self.spans = find_spans()
        folder = Path(config.data)
        self.storage = Storage(folder, folder / LOG_FOLDER / TAIL)
        loop = self._loop = asyncio.get_running_loop()
        self.broker = Broker(
            _broker_settings(config),
            next_notice=(store.starts << 32) + 1,  # no number comes twice, whatever a crash forgot
            holding=True,
        )
        self._runner = EffectRunner(self.broker, self.metrics, clock, self.spans)
        self.canary = ServiceCanary(
            self.broker.state, self.metrics, config.matching.canary_share, subscription_of=matchable
        )
        self.dispatcher = Dispatcher(
            self.broker,
            self._runner,
            loop,
            self.metrics,
            mark_changed=self._mark_changed,
            on_ended=self._on_ended,
            drained=self._resume_commits,
            canary=self.canary,
            rebuild=lambda: self._tasks.append(loop.create_task(self.maintenance.rebuild_index())),
            budgets=Budgets(
                share=config.matching.share,
                burst_seconds=config.matching.burst_seconds,
                all_share=config.matching.all_share,
            ),
        )
        self.dispatcher.end = log.end
        self.state_writer = StateWriter(
            store,
            self.broker,
            loop,
            lambda: self.dispatcher.position,
            lambda: self.dispatcher.whole,
            check_files=self.storage.check,
        )
        self.committer = LogCommitter(
            log,
            loop,
            self.metrics,
            limits=log_settings(config).limits,
            commit_events=config.log.commit_events,
            waiting_bytes=config.log.waiting_bytes,
            committed=self.dispatcher.follow,
            throttled=lambda: bool(self._introducing) or self.dispatcher.throttled(),
            check=self.storage.check,
        )
        self.prefetcher = SimilarityPrefetcher(
            loop,
            share=config.semantics.share,
            user_bytes=config.semantics.waiting_bytes,
            all_bytes=config.log.waiting_bytes,
        )
        self.slowed = Slowed(
            loop,
            self.dispatcher.slows,
            user_bytes=config.matching.waiting_bytes,
            all_bytes=config.log.waiting_bytes,
        )
        self.maintenance = Maintenance(
            config,
            log,
            self.dispatcher,
            self.canary,
            storage=self.storage,
            committer=self.committer,
            apply=self._apply,
            loaded=lambda: self.loaded,
        )
        self._recovery = Recovery(config, store, self.broker, self._runner, self.dispatcher)
        self._loaded = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._introducing: set[asyncio.Task[None]] = set()
        self.replaying = ThreadPoolExecutor(REPLAY_THREADS, "recado-replay")
        self.watchers: list[Callable[[SubscriptionInfo, bool], None]] = []
        self.ready = self.listed = self.draining = False
        self.trouble = ""

    # -- from the beginning to the end ---------------------------------------------------------------------------------

    @classmethod
    async def open(cls, config: Config, *, clock: Clock | None = None) -> Self:
        """Open the files in the configured folder; loading goes on in the background.

        Without a ``clock`` it is that of the system, as a ``SteadyClock``.
        """
        sys.setswitchinterval(SWITCH_SECONDS)
        if config.semantics != Semantics():
            await asyncio.to_thread(read_understanding, config)
        folder = Path(config.data)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        steady = SteadyClock()
        clock = clock or (lambda: datetime.fromtimestamp(steady(), UTC))
        log = await asyncio.to_thread(SqliteEventLog.open, folder / LOG_FOLDER, log_settings(config), clock)
        steady.start_from(log.latest.timestamp())
        try:
            store = await asyncio.to_thread(SqliteStateStore, folder)
        except BaseException:
            log.close()
            raise
        engine = cls(config, log, store, clock)
        await asyncio.to_thread(remember_newest, engine.committer, log)
        engine.ready = True
        engine._tasks = [asyncio.create_task(engine._load()), asyncio.create_task(engine.maintenance.run())]
        return engine

    async def _load(self) -> None:
        try:
            await self._recover()
        except Exception as error:
            self.trouble = f"subscriptions and mailboxes cannot be loaded: {error}"
            _log.exception("%s; events are still accepted", self.trouble)
            raise
        self.storage.watch(Path(self.config.data) / STATE_FILE)  # which a damaged one may have made room for
        self._loaded.set()
        self.state_writer.begin()
        self._apply(s.Recovered())
        for subscription in list(self.broker.state.subscriptions.values()):
            if subscription.active:
                self._watch(subscription, active=True)
        self._tasks.append(asyncio.create_task(take_kernels(self.matcher)))

    async def _recover(self) -> None:
        recovery = self._recovery
        loaded = await recovery.load()
        at_once = recovery.delivers_at_once(loaded)
        if at_once:
            self._apply(s.Release())
        pairs = await recovery.enter(loaded)
        self.listed = True
        await recovery.fill_matcher(loaded, pairs)
        if not at_once:
            self._apply(s.Release())
        await recovery.catch_up(loaded, self.log)

    @property
    def loaded(self) -> bool:
        return self._loaded.is_set()

    @property
    def matcher(self) -> Matcher:
        return self.dispatcher.matcher

    @property
    def damage(self) -> list[str]:
        """What of the files could not be used, in sentences."""
        return self._recovery.damage

    async def when_loaded(self) -> None:
        """Wait until subscriptions and mailboxes are there; an error if loading failed."""
        if self._loaded.is_set():
            return
        waiting = asyncio.create_task(self._loaded.wait())
        await asyncio.wait((waiting, self._tasks[0]), return_when=asyncio.FIRST_COMPLETED)
        if not self._loaded.is_set():
            waiting.cancel()
            self._tasks[0].result()
            raise Busy("the service is stopping")
        await waiting

    async def close(self) -> None:
        """Refuse new work, finish what was accepted, and give the files back."""
        if self.draining:
            return
        self.draining, self.ready = True, False
        self.dispatcher.hurried = True
        self.slowed.close()
        await self.prefetcher.close()
        while not self.committer.idle or self.dispatcher.backlog:
            await asyncio.sleep(0.005)
        await asyncio.wait(self._tasks[:1])  # what is being loaded is loaded: a thread cannot be stopped
        for consumer in list(self.broker.state.consumers.values()):
            self.broker.handle(s.ConsumerLost(consumer.key), self.clock())
            consumer.key.close("draining")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.loaded:
            try:
                await self.state_writer.flush()
            except RecadoError as error:
                _log.error("the state cannot be written at the end; the next start derives it from the log: %s", error)
        await asyncio.to_thread(self._close_files)

    def _close_files(self) -> None:
        """In a thread."""
        if self.loaded:
            self.matcher.save_cache()
        self.maintenance.thread.shutdown()
        self.dispatcher.verifier.close()
        self.replaying.shutdown(cancel_futures=True)
        self.committer.close()
        self.state_writer.close()
        self.log.close()

    async def backup(self, target: Path) -> None:
        """Copy log and state to a new folder, from which a service can be started."""
        target, data = Path(target), Path(self.config.data)
        check_target(target, data)
        await self.when_loaded()
        await self.state_writer.flush()
        await asyncio.to_thread(copy_files, data, self.log, target)

    @property
    def accepts(self) -> bool:
        """Are publications and subscriptions accepted now, as far as is known?"""
        troubles = self.troubles()
        return self.ready and self.loaded and not any(troubles[kind] for kind in STORING)

    def troubles(self) -> dict[str, str]:
        """What needs somebody's attention, in a sentence, by kind; an empty one is none."""
        return {
            "loading": self.trouble,
            "storage": self.storage.trouble,
            "log": self.committer.trouble,
            "state": self.state_writer.trouble,
            "matching": self.matcher.trouble if self.loaded else "",
            "canary": self.canary.trouble,
        }

    def status(self) -> dict[str, Any]:
        """How the service is, for people."""
        state = self.broker.state
        return {
            "ready": self.accepts,
            "loaded": self.loaded,
            "kernels": self.loaded and self.matcher.is_compiled,
            "first": self.log.first,
            "end": self.dispatcher.end,
            "dispatched": self.dispatcher.position,
            "subscriptions": state.active,
            "users": len(state.users),
            "sessions": len(state.consumers),
            "waiting": state.waiting.length,
            "waiting_bytes": state.waiting.bytes,
            "in_flight": state.in_flight,
            "redelivered": state.redelivered,
            "faults": self.dispatcher.faults,
            "over_budget": len(self.dispatcher.verifier.over()),
            "damage": _shortened(self.damage),
            "trouble": [text for text in self.troubles().values() if text],
        }

    # -- around the broker ---------------------------------------------------------------------------------------------

    def _apply(self, stimulus: Stimulus) -> Sequence[Effect]:
        """Give the broker a stimulus, carry out the effects and store what changed; the effects."""
        effects = self.broker.handle(stimulus, self.clock())
        if effects:
            self._runner.run(effects)
        if self._runner.ending:
            self.dispatcher.forget_ended()
        self._mark_changed()
        return effects

    def _resume_commits(self) -> None:
        self.committer.resume()

    def _mark_changed(self) -> None:
        if self._loaded.is_set():
            self.state_writer.mark_changed()

    def _on_ended(self, subscription: SubscriptionState) -> None:
        self.metrics.expired += subscription.reason == "expired"
        if not self.loaded:
            return
        self._watch(subscription, active=False)
        successor = subscription.user.subscriptions.get(subscription.id)
        if successor is not None and successor.active:  # it was there before this one had got its last events
            self._watch(successor, active=True)

    def _watch(self, subscription: SubscriptionState, *, active: bool) -> None:
        for watcher in self.watchers:
            watcher(describe(subscription), active)

    def _introduce(self) -> None:
        """A new device has a mailbox of its own. Nothing is accepted before that is on stable storage: else a crash
        would leave the device out when that is dispatched again.
        """
        task = asyncio.create_task(self.state_writer.flush())
        self._introducing.add(task)
        task.add_done_callback(self._on_introduced)

    def _on_introduced(self, task: asyncio.Task[None]) -> None:
        self._introducing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a new device would be forgotten in a crash now: %s", error)
        self.committer.resume()

    # -- events --------------------------------------------------------------------------------------------------------

    async def publish(self, who: Principal, events: Sequence[Event]) -> Sequence[int]:
        """Store the events, all or none; their positions, when they are on stable storage.

        A range, unless some of the events had been sent before and have the positions that they got then.
        """
        future: asyncio.Future[Sequence[int]] = self._loop.create_future()

        def done(result: Sequence[int] | RecadoError) -> None:
            if future.done():
                return
            if isinstance(result, RecadoError):
                future.set_exception(result)
            else:
                future.set_result(result)

        self.publish_soon(who, events, done)
        return await future

    def publish_soon(self, who: Principal, events: Sequence[Event], done: Done) -> None:
        """The same without waiting: ``done`` is called with the positions or the error, perhaps at once."""
        if self.spans is not None and (ended := self.spans.publishing(events)) is not None:
            done = _both(ended, done)
        try:
            if not self.ready:
                raise Busy("the service is stopping; try again in a moment")
            if self.storage.trouble:
                raise Busy(f"events cannot be stored: {self.storage.trouble}; nothing was stored, try again later")
            for event in events:
                authorise(who, "publish", event_type=event.type)
            if self.slowed.holds(who.user) or (self.dispatcher.slows(who.user) and not all(map(is_narrow, events))):
                self._publish_slowly(who, events, done)
            elif self.prefetcher.holds(who.user) or not (self.dispatcher.catching_up or self.matcher.prepared(events)):
                self._publish_later(who, events, done)
            else:
                self.committer.put(who.user, events, done)
        except RecadoError as error:
            self.metrics.by["refused"][type(error).__name__.lower()] += len(events)
            done(error)

    def _publish_slowly(self, who: Principal, events: Sequence[Event], done: Done) -> None:
        """Events that take long, of a user over the budget, and those after them (``recado.server.verification``)."""

        def then() -> None:
            try:
                if not self.ready:
                    raise Busy("the service is stopping; try again in a moment")
                if self.prefetcher.holds(who.user) or not (
                    self.dispatcher.catching_up or self.matcher.prepared(events)
                ):
                    self._publish_later(who, events, done)
                else:
                    self.committer.put(who.user, events, done)
            except RecadoError as error:
                done(error)

        self.slowed.put(who.user, sum(len(write_flat(event)) for event in events), then)
        self.metrics.slowed += len(events)

    def _publish_later(self, who: Principal, events: Sequence[Event], done: Done) -> None:
        """Events with new names, and those of the same user after them; see ``recado.server.prefetch``."""

        def then() -> None:
            try:
                if not self.ready:
                    raise Busy("the service is stopping; try again in a moment")
                self.committer.put(who.user, events, done)
            except RecadoError as error:
                done(error)

        self.prefetcher.put(
            who.user, sum(len(write_flat(event)) for event in events), self.matcher.preparing(events), then
        )
        self.metrics.held_back += len(events)

    def replay(
        self,
        who: Principal,
        record: bytes,
        *,
        position: int | None = None,
        since: datetime | None = None,
        limit: int | None = None,
        on_damage: OnDamage = lambda _: None,
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """Stored events through a filter: position and JSON of each, oldest first.

        ``on_damage`` hears of the positions that cannot be read, in another thread and perhaps more than once.
        """
        return replay(
            self.log,
            self.replaying,
            self._sieve,
            who,
            record,
            position=position,
            since=since,
            limit=limit,
            on_damage=on_damage,
        )

    async def _sieve(self, who: Principal, subscription: Subscription) -> Sieve | None:
        """How a subscription by meaning is replayed; None if its names mean themselves."""
        if subscription.semantic is None and not self.config.semantics.always:
            return None
        await self.when_loaded()
        await self.prefetcher.run(who.user, self.matcher.checking(subscription))
        match = self.matcher.replay_matcher(subscription)

        async def sieve(rows: Rows) -> Rows:
            found = await self.prefetcher.run(who.user, match([text for _, text in rows]))
            return [(rows[one[0]][0], one[1]) for one in found if one is not None]

        return sieve

    # -- subscriptions -------------------------------------------------------------------------------------------------

    async def subscribe(self, who: Principal, record: bytes, device: str) -> SubscriptionInfo:
        """A subscription for the caller's user; durable, and active for all later events, when this returns."""
        await self.when_loaded()
        request = read_request(record, check_device(device), self.clock(), self.config.subscriptions)
        authorise(who, "subscribe", event_type=request.subscription.type)
        if request.subscription.semantic is not None or self.config.semantics.always:
            await self.prefetcher.run(who.user, self.matcher.checking(request.subscription))
        self.state_writer.check()
        owner = self.broker.state.users.get(who.user)
        before = owner.subscriptions.get(request.subscription.id) if owner else None
        replaces = before is not None and before.active
        wish = s.Subscribe(
            who.user,
            request.subscription.id,
            self.dispatcher.end,
            request.expires_at,
            request.device,
            request.scope,
            request.constraints,
            request.record,
        )
        subscription = _one(self._apply(wish), s.Subscribed).subscription
        self._match_from_now(subscription, request.subscription)
        await self._store(subscription, replaces=replaces)
        self.metrics.subscribed += 1
        return describe(subscription)

    def _match_from_now(self, new: SubscriptionState, subscription: Subscription) -> None:
        self.matcher.add(msgspec.structs.replace(subscription, id=str(new.serial)))

    async def renew(
        self, who: Principal, sub_id: str, expires_at: datetime | None = None, ttl: float | None = None
    ) -> SubscriptionInfo:
        """Let a subscription live longer; one that expired a short while ago lives again."""
        await self.when_loaded()
        now = self.clock()
        subscription = self._subscription(who, sub_id)
        authorise(who, "subscribe", event_type=str(subscription.record.get("type") or ""))
        until = expiry(expires_at, ttl, now, self.config.subscriptions)
        if subscription.record.get("semantic") is not None or self.config.semantics.always:
            await self._check_renewal(who, subscription)
            subscription = self._subscription(who, sub_id)  # as it is now
        self.state_writer.check()
        renewed = _one(self._apply(s.Renew(subscription, until, self.dispatcher.end)), s.Subscribed).subscription
        is_new = renewed is not subscription
        if is_new:
            self._match_from_now(renewed, matchable(renewed))
        await self._store(renewed if is_new else None)
        return describe(renewed)

    async def _check_renewal(self, who: Principal, subscription: SubscriptionState) -> None:
        """One by meaning that begins anew needs what a new one needs; one that goes on needs nothing."""
        if not subscription.active or subscription.expires_at <= self.clock():
            await self.prefetcher.run(who.user, self.matcher.checking(matchable(subscription)))

    async def _store(self, new: SubscriptionState | None, *, replaces: bool = False) -> None:
        """Wait for the store; a subscription that could not be stored is taken back, for nobody was told of it.

        One that replaces another stays: else its owner would be left with none, though the other was promised.
        """
        try:
            await self.state_writer.flush()
        except RecadoError:
            if new is not None and new.active and replaces:
                self._watch(new, active=True)
            elif new is not None and new.active:
                self._apply(s.Cancel(new, self.dispatcher.position))
            raise
        if new is not None:
            self._watch(new, active=True)

    async def cancel(self, who: Principal, sub_id: str, user: str | None = None, *, reason: str = "") -> None:
        """End a subscription. It gets what was accepted before, and what it has in mailboxes stays there.

        An administrator may end another user's. If that, or a ``reason``, ends it, its owner is told.
        """
        await self.when_loaded()
        subscription = self._subscription(who, sub_id, user)
        if subscription.user.name != who.user:
            reason = reason or "cancelled"
        self._apply(s.Cancel(subscription, self.dispatcher.end, reason))
        self.metrics.cancelled += 1
        await self.state_writer.flush()

    async def discard(self, who: Principal, device: str) -> int:
        """Cancel all subscriptions of the user but those of other devices, and empty their mailboxes; how many."""
        await self.when_loaded()
        effects = self._apply(s.Discard(who.user, check_device(device), self.dispatcher.position))
        count = _one(effects, s.Removed).count
        self.metrics.cancelled += count
        await self.state_writer.flush()
        return count

    def subscriptions(self, who: Principal, user: str | None = None) -> list[SubscriptionInfo]:
        """The active subscriptions of a user: the caller's own, or another's for an administrator ("*": all)."""
        if not self.listed:
            self._need_loaded()
        now = self.clock()
        found = [one for owner in self._users(who, user) for one in owner.subscriptions.values()]
        return [describe(one) for one in found if one.active and one.expires_at > now]

    def find_subscription(self, who: Principal, sub_id: str, user: str | None = None) -> SubscriptionInfo:
        """One of those, by its id; an Unknown if there is none."""
        if not self.listed:
            self._need_loaded()
        now = self.clock()
        for owner in self._users(who, user):
            found = owner.subscriptions.get(sub_id)
            if found is not None and found.active and found.expires_at > now:
                return describe(found)
        raise Unknown(f"there is no subscription {sub_id[:256]!r}")

    def page_of_subscriptions(
        self, who: Principal, request: PageRequest, shown: Callable[[SubscriptionInfo], dict[str, Any]]
    ) -> Page:
        """A part of the list, by id; of users whose names begin alike, and so of all, for an administrator."""
        authorise(who, "read", user=request.user)
        if not self.listed:
            self._need_loaded()
        now = self.clock()

        def show(_: User, one: SubscriptionState) -> dict[str, Any] | None:
            if not one.active or one.expires_at <= now:
                return None
            return shown(describe(one))

        return read_page(self.broker.state, request, lambda user: user.subscriptions, show)

    def _subscription(self, who: Principal, sub_id: str, user: str | None = None) -> SubscriptionState:
        name = user or who.user
        authorise(who, "manage", user=name)
        owner = self.broker.state.users.get(name)
        subscription = owner.subscriptions.get(sub_id) if owner else None
        if subscription is None:
            raise Unknown(f"user {name[:80]!r} has no subscription {sub_id[:80]!r}")
        return subscription

    # -- consumers -----------------------------------------------------------------------------------------------------

    def attach(
        self, who: Principal, device: str, consumer: Consumer, seen: int | None = None, log: str | None = None
    ) -> Welcome:
        """The consumer connects the device; notices and the mailbox follow as soon as they are loaded.

        ``seen`` counts positions of ``log``; of another log than ours it says nothing.
        """
        if log and log != self.log.identity:
            seen = None
        if self.draining:
            raise Busy("the service is stopping; try again in a moment")
        authorise(who, "read", user=who.user)
        is_new = self.config.mailbox.per_device and self._is_new(who.user, check_device(device))
        end = self.dispatcher.end << ORDINAL_BITS
        wish = s.Attach(who.user, check_device(device), consumer, consumer.window, seen, end)
        effects = self.broker.handle(wish, self.clock())
        user = self.broker.state.users[who.user]
        if seen is not None and seen >= end:
            _log.warning(
                "device %r of user %r has seen position %d, but the log ends at %d, so it is an older copy; "
                "what the device says it has seen is not relied on",
                *(device, who.user, seen >> ORDINAL_BITS, self.dispatcher.end),
            )
        waiting = sum(mailbox.length for name, mailbox in user.mailboxes.items() if name in ("", device))
        welcome = Welcome(
            *(who.user, device, consumer.window, waiting),
            *(tuple(other for other in user.consumers if other != device), self.log.identity, self.dispatcher.end),
        )
        if is_new:
            self._introduce()
        self._run_soon(effects)
        return welcome

    def _run_soon(self, effects: Sequence[Effect]) -> None:
        """Carry out effects in the next turn of the loop, so that the caller can say WELCOME first."""
        self._runner.add(effects)
        self._loop.call_soon(self._run_waiting)

    def _run_waiting(self) -> None:
        self._runner.run()
        self._mark_changed()

    def _is_new(self, user: str, device: str) -> bool:
        """Has nobody heard of this device? It can be promised a mailbox only if the state can be read and written."""
        self._need_loaded()
        known = self.broker.state.users.get(user)
        if known is not None and device in known.devices:
            return False
        self.state_writer.check()
        return True

    def attach_webhook(self, user: str, device: str, consumer: Consumer) -> None:
        """The consumer delivers what is for this device, and connects nobody."""
        wish = s.AttachWebhook(user, device, consumer, consumer.window)
        self._run_soon(self.broker.handle(wish, self.clock()))

    def acknowledge(self, consumer: Consumer, upto: int) -> None:
        """The consumer has got everything that came on it up to a nid."""
        self._apply(s.Acknowledge(consumer, upto))

    def acknowledge_one(self, consumer: Consumer, nid: int) -> None:
        """The consumer has got this one, whatever came before it."""
        self._apply(s.AcknowledgeOne(consumer, nid))

    def acknowledge_some(self, consumer: Consumer, nids: Collection[int]) -> None:
        """The consumer has got these, but not all that came before them."""
        self._apply(s.AcknowledgeSome(consumer, nids))

    def note_repeats(self, consumer: Consumer, count: int) -> None:
        """The consumer has sent so many once more of what it has."""
        self._apply(s.Repeated(consumer, count))

    def resize(self, consumer: Consumer, window: int) -> None:
        """The consumer takes so many unacknowledged notifications from now on."""
        self._apply(s.Resize(consumer, window))

    def confirm_notices(self, consumer: Consumer, notices: Iterable[int]) -> None:
        """The consumer has got these notices."""
        self._apply(s.ConfirmNotices(consumer, list(notices)))

    def lose(self, consumer: Consumer, reason: str) -> None:
        """The connection failed. What it did not acknowledge waits again."""
        if consumer in self.broker.state.consumers:
            _log.debug("a connection of kind %s was lost: %s", consumer.kind, reason)
            self._apply(s.ConsumerLost(consumer))

    def end(self, consumer: Consumer, *, forget: bool = False) -> None:
        """The device ended its session; with ``forget`` it does not come back."""
        self._apply(s.SessionEnded(consumer, forget))

    # -- what there is -------------------------------------------------------------------------------------------------

    def sessions(self, who: Principal, user: str | None = None) -> list[SessionInfo]:
        """The devices of a user, or of all ("*") for an administrator."""
        return [info for owner in self._users(who, user) for info in sessions_of(owner)]

    def page_of_sessions(self, who: Principal, request: PageRequest) -> Page:
        """A part of the list, by device."""
        authorise(who, "read", user=request.user)
        return read_page(self.broker.state, request, lambda user: user.devices, describe_session)

    def end_session(self, who: Principal, user: str, device: str | None = None, *, forget: bool = False) -> int:
        """End the session of a device, or of all devices of the user; how many there were.

        With ``forget`` the devices are given up, with what waits for them alone.
        """
        authorise(who, "manage", user=user)
        owner = self.find_user(user)
        names = [name for name in owner.devices if device in (None, name)]
        for name in names:
            consumer = owner.consumers.get(name)
            if consumer is not None:
                self._apply(s.SessionEnded(consumer.key))
                consumer.key.close("ended")
            if forget or not self.config.mailbox.per_device:
                self._apply(s.ForgetDevice(user, name, empty=forget))
        return len(names)

    def mailboxes(self, who: Principal, user: str | None = None) -> list[MailboxInfo]:
        """The mailboxes of a user, or of all ("*") for an administrator."""
        self._need_loaded()
        return [info for owner in self._users(who, user) for info in mailboxes_of(owner, self.clock())]

    def page_of_mailboxes(self, who: Principal, request: PageRequest) -> Page:
        """A part of the list, by device."""
        authorise(who, "read", user=request.user)
        self._need_loaded()
        now = self.clock()
        return read_page(
            self.broker.state, request, lambda user: user.mailboxes, lambda _, one: describe_mailbox(one, now)
        )

    async def lag(self) -> dict[str, Lag]:
        """What waits in all mailboxes, by class; looks at those that have changed since the last time, in steps."""
        classes = self.broker.state.waiting.classes()
        for totals in classes.values():
            while not totals.settle(_SETTLED):
                await asyncio.sleep(0)
        now = self.clock()
        return {name: Lag(one.length, lag_seconds(one.oldest(), now)) for name, one in classes.items()}

    def slowest(self, who: Principal, user: str | None, count: int) -> list[MailboxInfo]:
        """The mailboxes of a user in which something waits for longest."""
        self._need_loaded()
        return self._describe_slowest(
            (one for owner in self._users(who, user) for one in owner.mailboxes.values() if one.length), count
        )

    def slowest_of_all(self, count: int) -> list[MailboxInfo]:
        """The same of everybody; whether the caller may see that is not asked here."""
        self._need_loaded()
        classes = self.broker.state.waiting.classes().values()
        return self._describe_slowest((one for totals in classes for one in totals.slowest(count)), count)

    def _describe_slowest(self, found: Iterable[Mailbox], count: int) -> list[MailboxInfo]:
        now = self.clock()
        return nlargest(count, (describe_mailbox(one, now) for one in found), key=lambda one: one.lag_seconds)

    async def peek(  # noqa: PLR0917  # the query's members, in its order
        self,
        who: Principal,
        user: str,
        limit: int,
        after_nid: int | None = None,
        device: str | None = None,
        prefix: str = "",
    ) -> list[OutgoingNotification]:
        """What waits for a user, oldest first; it stays there. ``prefix`` is how the ids of subscriptions begin."""
        await self.when_loaded()
        authorise(who, "read", user=user)
        known = self._known(who, user).mailboxes.values()
        mailboxes = [one for one in known if device is None or one.device in ("", device)]
        after = -1 if after_nid is None else after_nid
        waiting = (
            one
            for mailbox in mailboxes
            for one in mailbox.notifications[mailbox.head :]
            if one.state == WAITING and one.nid > after and one.sub_id.startswith(prefix)
        )
        return [self._runner.outgoing(one, True) for one in nsmallest(limit, waiting, key=lambda one: one.nid)]

    async def purge(self, who: Principal, user: str, device: str | None = None) -> int:
        """Empty the mailboxes of a user, who is told; how many notifications are gone."""
        await self.when_loaded()
        authorise(who, "manage", user=user)
        count = _one(self._apply(s.Purge(self._known(who, user).name, device)), s.Removed).count
        await self.state_writer.flush()
        return count

    def _users(self, who: Principal, user: str | None) -> list[User]:
        if user is None:
            user = who.user
        authorise(who, "read", user=user)
        users = self.broker.state.users
        if user == "*":
            return list(users.values())
        return [users[user]] if user in users else []

    def _known(self, who: Principal, name: str) -> User:
        """The same, but the caller exists, though nothing may be known."""
        return self.broker.state.users.get(name) or User(name) if name == who.user else self.find_user(name)

    def find_user(self, name: str) -> User:
        """What is known of a user; an Unknown if nothing is."""
        found = self.broker.state.users.get(name)
        if found is None:
            raise Unknown(f"nothing is known of user {name[:80]!r}")
        return found

    def _need_loaded(self) -> None:
        if not self.loaded:
            raise Busy("subscriptions and mailboxes are still being loaded; try again in a moment")


def _both(first: Done, second: Done) -> Done:
    def call(result: Sequence[int] | RecadoError) -> None:
        try:
            first(result)
        finally:
            second(result)

    return call


def _one(effects: Sequence[Effect], kind: type[T]) -> T:
    """The answer among the effects of a stimulus."""
    return next(effect for effect in effects if isinstance(effect, kind))


def _shortened(texts: Sequence[str]) -> list[str]:
    more = len(texts) - _DAMAGE_SHOWN
    return [*texts[:_DAMAGE_SHOWN], *([f"and {more:,} more, which the log names"] if more > 0 else [])]


def _broker_settings(config: Config) -> BrokerSettings:
    age = config.mailbox.age_seconds
    return BrokerSettings(
        bounds=Bounds(config.mailbox.length, config.mailbox.bytes, timedelta(seconds=age) if age else None),
        per_device=config.mailbox.per_device,
        devices_per_user=config.sessions.devices_per_user,
        grace=timedelta(seconds=config.subscriptions.grace_seconds),
        subscriptions_per_user=config.subscriptions.per_user,
        subscriptions_in_all=config.subscriptions.in_all,
    )


def log_settings(config: Config) -> LogSettings:
    """Of the event log, as configured."""
    return LogSettings(
        segment_rows=config.log.segment_rows,
        segment_bytes=config.log.segment_bytes,
        segment_age_seconds=config.log.segment_age_seconds,
        limits=msgspec.structs.replace(LIMITS, event_bytes=min(config.limits.event_bytes, LIMITS.event_bytes)),
    )
