"""The engine of a service: everything between the ways in and the files. It has no listener of its own.

    publish -> authorise, check -> log (fsync) -> acknowledge -> match -> desk -> legs
                                                                          |
                                                    state store, in the background

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
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

from recado.broker.core import ORDINAL_BITS, Desk
from recado.broker.mailbox import WAITING
from recado.broker.state import Standing, User
from recado.errors import RecadoError
from recado.matching.undecided import is_narrow
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.protocols.session.messages import Welcome
from recado.server import maintenance as upkeep
from recado.server.canary import ServiceCanary
from recado.server.committer import Done, Intake
from recado.server.config import Config, Semantics
from recado.server.consumer import Leg, Notified
from recado.server.dispatcher import Dispatcher
from recado.server.matching import Matcher, read_understanding
from recado.server.metrics import Metrics
from recado.server.permissions import Busy, Principal, Unknown, authorise, check_device
from recado.server.prefetch import Ahead, take_kernels
from recado.server.recovery import Recovery
from recado.server.replay import replayed, sieve_of
from recado.server.requests import Held, MailboxInfo, SessionInfo, expiry, held, mailboxes_of, read_wanted, sessions_of
from recado.server.state_writer import Keeper
from recado.server.verification import Budgets, Slowed
from recado.store.log import EventLog, LogReader
from recado.store.log.settings import OnDamage
from recado.store.log.writer import wall_clock
from recado.store.state import StateStore

# --- The core of the engine: files and threads, events in, and what happens when something has happened --------------
#
# ``recado.server.engine`` has the whole picture, and the rest of the interface.


Clock = Callable[[], datetime]
REPLAY_THREADS = 4
SWITCH_SECONDS = 0.0005
"""How long a busy loop may keep the log's thread from going on after each step: that is what an fsync waits for."""
_log = logging.getLogger("recado.server")


class EngineCore:
    """Use ``open``. ``watchers`` are called with a subscription and whether it is active, when that changes."""

    def __init__(self, config: Config, log: EventLog, store: StateStore, clock: Clock) -> None:
        self.config, self.metrics, self.log = config, Metrics(), log
        self.clock = clock
        loop = self._loop = asyncio.get_running_loop()
        self.desk = Desk(
            upkeep.bounds_of(config),
            per_device=config.mailbox.per_device,
            devices_per_user=config.sessions.devices_per_user,
            next_notice=(store.starts << 32) + 1,  # no number comes twice, whatever a crash forgot
            grace=timedelta(seconds=config.subscriptions.grace_seconds),
            per_user=config.subscriptions.per_user,
            in_all=config.subscriptions.in_all,
        )
        self.desk.holding = self.desk.recovering = True
        self.canary = ServiceCanary(
            self.desk, self.metrics, config.matching.canary_share, subscription_of=upkeep.subscription_of
        )
        self.dispatcher = Dispatcher(
            self.desk,
            loop,
            self.metrics,
            clock=clock,
            changed=self._changed,
            left=self.left,
            drained=self._drained,
            canary=self.canary,
            rebuild=lambda: self._tasks.append(loop.create_task(upkeep.rebuild_index(self))),
            budgets=Budgets(
                share=config.matching.share,
                burst_seconds=config.matching.burst_seconds,
                all_share=config.matching.all_share,
            ),
        )
        self.dispatcher.end = log.end
        self.keeper = Keeper(store, self.desk, loop, lambda: self.dispatcher.position, lambda: self.dispatcher.whole)
        self.intake = Intake(
            log,
            loop,
            self.metrics,
            commit_events=config.log.commit_events,
            waiting_bytes=config.log.waiting_bytes,
            stored=self.dispatcher.stored,
            throttled=lambda: bool(self._introducing) or self.dispatcher.throttled(),
        )
        self.ahead = Ahead(
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
        self.reader = LogReader(log.path)
        self._recovery = Recovery(config, store, self.dispatcher, self.keeper)
        self._loaded = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._introducing: set[asyncio.Task[None]] = set()
        self.background = ThreadPoolExecutor(1, "recado-upkeep")
        self.replaying = ThreadPoolExecutor(REPLAY_THREADS, "recado-replay")
        self.watchers: list[Callable[[Held, bool], None]] = []
        self.ready = self.listed = self.draining = False
        self.trouble = ""

    @classmethod
    async def open(cls, config: Config, *, clock: Clock = wall_clock) -> Self:
        """Open the files in the configured folder; loading goes on in the background."""
        sys.setswitchinterval(SWITCH_SECONDS)
        if config.semantics != Semantics():
            await asyncio.to_thread(read_understanding, config)
        folder = Path(config.data)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = await asyncio.to_thread(EventLog.open, folder / "log", upkeep.log_settings(config), clock)
        try:
            store = await asyncio.to_thread(StateStore, folder)
        except BaseException:
            log.close()
            raise
        engine = cls(config, log, store, clock)
        await asyncio.to_thread(upkeep.remember_newest, engine.intake, engine.reader, log.end)
        engine.ready = True
        engine._tasks = [asyncio.create_task(engine._load()), asyncio.create_task(upkeep.keep_up(engine))]
        return engine

    async def _load(self) -> None:
        try:
            await self._recover()
        except Exception as error:
            self.trouble = f"subscriptions and mailboxes cannot be loaded: {error}"
            _log.exception("%s; events are still accepted", self.trouble)
            raise
        self._loaded.set()
        self.keeper.begin()
        self.desk.recovered()
        self.settle()
        for standing in list(self.desk.standings.values()):
            if standing.active:
                self.watch(standing, active=True)
        self._tasks.append(asyncio.create_task(take_kernels(self.matcher)))

    async def _recover(self) -> None:
        recovery = self._recovery
        loaded = await recovery.load()
        at_once = recovery.tells_events_as_they_came(loaded)
        if at_once:
            self._deliver()
        pairs = await recovery.enter(loaded)
        self.listed = True
        await recovery.fill_matcher(loaded, pairs)
        if not at_once:
            self._deliver()
        await recovery.catch_up(loaded, self.reader, self.log.first)

    def _deliver(self) -> None:
        """The mailboxes are here."""
        self.desk.release(self.clock())
        self.settle()

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
        await self.ahead.close()
        while not self.intake.idle or self.dispatcher.backlog:
            await asyncio.sleep(0.005)
        await asyncio.wait(self._tasks[:1])  # what is being loaded is loaded: a thread cannot be stopped
        for link in list(self.desk.links.values()):
            self.desk.lost(link.key, self.clock())
            link.key.close("draining")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await upkeep.close_files(self)

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
        try:
            if not self.ready:
                raise Busy("the service is stopping; try again in a moment")
            for event in events:
                authorise(who, "publish", type=event.type)
            if self.slowed.holds(who.user) or (self.dispatcher.slows(who.user) and not all(map(is_narrow, events))):
                self._publish_slowly(who, events, done)
            elif self.ahead.holds(who.user) or not (self.dispatcher.catching_up or self.matcher.prepared(events)):
                self._publish_later(who, events, done)
            else:
                self.intake.put(who.user, events, done)
        except RecadoError as error:
            self.metrics.by["refused"][type(error).__name__.lower()] += len(events)
            done(error)

    def _publish_slowly(self, who: Principal, events: Sequence[Event], done: Done) -> None:
        """Events that take long, of a user over the budget, and those after them (``recado.server.verification``)."""

        def then() -> None:
            try:
                if not self.ready:
                    raise Busy("the service is stopping; try again in a moment")
                if self.ahead.holds(who.user) or not (self.dispatcher.catching_up or self.matcher.prepared(events)):
                    self._publish_later(who, events, done)
                else:
                    self.intake.put(who.user, events, done)
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
                self.intake.put(who.user, events, done)
            except RecadoError as error:
                done(error)

        self.ahead.put(who.user, sum(len(write_flat(event)) for event in events), self.matcher.preparing(events), then)
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
        return replayed(
            self.reader,
            self.replaying,
            partial(sieve_of, self),
            who,
            record,
            position=position,
            since=since,
            limit=limit,
            on_damage=on_damage,
        )

    # -- what has happened ---------------------------------------------------------------------------------------------

    def left(self, standing: Standing) -> None:
        self.metrics.expired += standing.reason == "expired"
        if not self.loaded:
            return
        self.watch(standing, active=False)
        successor = standing.user.standings.get(standing.id)
        if successor is not None and successor.active:  # it was there before this one had got its last events
            self.watch(successor, active=True)

    def watch(self, standing: Standing, *, active: bool) -> None:
        for watcher in self.watchers:
            watcher(held(standing), active)

    def settle(self) -> None:
        """Do what the desk wants done, and keep what changed."""
        if self.desk.effects or self.desk.dropped:
            self.dispatcher.perform()
        self._changed()

    def introduce(self) -> None:
        """A new device has a mailbox of its own. Nothing is accepted before that is on stable storage: else a crash
        would leave the device out when that is dispatched again.
        """
        task = asyncio.create_task(self.keeper.kept())
        self._introducing.add(task)
        task.add_done_callback(self._introduced)

    def _introduced(self, task: asyncio.Task[None]) -> None:
        self._introducing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a new device would be forgotten in a crash now: %s", error)
        self.intake.resume()

    def _drained(self) -> None:
        self.intake.resume()

    def _changed(self) -> None:
        if self._loaded.is_set():
            self.keeper.changed()

    # -- operation -----------------------------------------------------------------------------------------------------

    async def backup(self, target: Path) -> None:
        """Copy log and state to a new folder, from which a service can be started."""
        await upkeep.back_up(self, Path(target))

    def status(self) -> dict[str, Any]:
        """How the service is, for people and for gauges."""
        return upkeep.status_of(self)


# --- The engine of a service: everything between the ways in and the files. It has no listener of its own ------------


class Engine(EngineCore):
    """Use ``open``: subscriptions, connections and mailboxes, on the core."""

    # -- subscriptions -------------------------------------------------------------------------------------------------

    async def subscribe(self, who: Principal, record: bytes, device: str) -> Held:
        """A subscription for the caller's user; durable, and active for all later events, when this returns."""
        await self.when_loaded()
        now = self.clock()
        wanted = read_wanted(record, check_device(device), now, self.config.subscriptions)
        authorise(who, "subscribe", type=wanted.subscription.type)
        if wanted.subscription.semantic is not None or self.config.semantics.always:
            await self.ahead.run(who.user, self.matcher.checking(wanted.subscription))
        self.keeper.check()
        owner = self.desk.users.get(who.user)
        before = owner.standings.get(wanted.subscription.id) if owner else None
        replaces = before is not None and before.active
        standing = self.desk.subscribe(
            who.user,
            wanted.subscription.id,
            position=self.dispatcher.end,
            now=now,
            expires_at=wanted.expires_at,
            device=wanted.device,
            scope=wanted.scope,
            constraints=wanted.constraints,
            record=wanted.record,
        )
        upkeep.match_from_now(self, standing, wanted.subscription)
        await self._kept(standing, replaces=replaces)
        self.metrics.subscribed += 1
        return held(standing)

    async def renew(
        self, who: Principal, sub_id: str, expires_at: datetime | None = None, ttl: float | None = None
    ) -> Held:
        """Let a subscription live longer; one that expired a short while ago lives again."""
        await self.when_loaded()
        now = self.clock()
        standing = self._standing(who, sub_id)
        authorise(who, "subscribe", type=str(standing.record.get("type") or ""))
        until = expiry(expires_at, ttl, now, self.config.subscriptions)
        if standing.record.get("semantic") is not None or self.config.semantics.always:
            await self._check_renewal(who, standing)
            standing = self._standing(who, sub_id)  # as it is now
        self.keeper.check()
        renewed = self.desk.renew(standing, until, position=self.dispatcher.end, now=now)
        if renewed is not standing:
            upkeep.match_from_now(self, renewed, upkeep.subscription_of(renewed))
        await self._kept(renewed if renewed is not standing else None)
        return held(renewed)

    async def _check_renewal(self, who: Principal, standing: Standing) -> None:
        """One by meaning that begins anew needs what a new one needs; one that goes on needs nothing."""
        if not standing.active or standing.expires_at <= self.clock():
            await self.ahead.run(who.user, self.matcher.checking(upkeep.subscription_of(standing)))

    async def _kept(self, new: Standing | None, *, replaces: bool = False) -> None:
        """Wait for the store; a subscription that could not be stored is taken back, for nobody was told of it.

        One that replaces another stays: else its owner would be left with none, though the other was promised.
        """
        try:
            await self.keeper.kept()
        except RecadoError:
            if new is not None and new.active and replaces:
                self.watch(new, active=True)
            elif new is not None and new.active:
                self.desk.cancel(new, position=self.dispatcher.position, now=self.clock())
                self.dispatcher.forget_ended()
            raise
        if new is not None:
            self.watch(new, active=True)

    async def cancel(self, who: Principal, sub_id: str, user: str | None = None) -> None:
        """End a subscription. It gets what was accepted before, and what it has in mailboxes stays there.

        An administrator may end another user's, who is told.
        """
        await self.when_loaded()
        standing = self._standing(who, sub_id, user)
        other = standing.user.name != who.user
        self.desk.cancel(standing, position=self.dispatcher.end, now=self.clock(), tell=other)
        self.dispatcher.forget_ended()
        self.settle()
        self.metrics.cancelled += 1
        await self.keeper.kept()

    async def discard(self, who: Principal, device: str) -> int:
        """Cancel all subscriptions of the user but those of other devices, and empty their mailboxes; how many."""
        await self.when_loaded()
        gone = self.desk.discard(who.user, check_device(device), position=self.dispatcher.position, now=self.clock())
        self.dispatcher.forget_ended()
        self.settle()
        self.metrics.cancelled += len(gone)
        await self.keeper.kept()
        return len(gone)

    def subscriptions(self, who: Principal, user: str | None = None) -> list[Held]:
        """The active subscriptions of a user: the caller's own, or another's for an administrator ("*": all)."""
        if not self.listed:
            self._need_loaded()
        now = self.clock()
        found = [s for owner in self._users(who, user) for s in owner.standings.values()]
        return [held(s) for s in found if s.active and s.expires_at > now]

    def _standing(self, who: Principal, sub_id: str, user: str | None = None) -> Standing:
        name = user or who.user
        authorise(who, "manage", user=name)
        owner = self.desk.users.get(name)
        standing = owner.standings.get(sub_id) if owner else None
        if standing is None:
            raise Unknown(f"user {name[:80]!r} has no subscription {sub_id[:80]!r}")
        return standing

    # -- legs ----------------------------------------------------------------------------------------------------------

    def attach(self, who: Principal, device: str, leg: Leg, seen: int | None = None, log: str | None = None) -> Welcome:
        """The leg connects the device; notices and the mailbox follow as soon as they are loaded.

        ``seen`` counts positions of ``log``; of another log than ours it says nothing.
        """
        if log and log != self.log.identity:
            seen = None
        if self.draining:
            raise Busy("the service is stopping; try again in a moment")
        authorise(who, "read", user=who.user)
        new = self.config.mailbox.per_device and self._is_new(who.user, check_device(device))
        end = self.dispatcher.end << ORDINAL_BITS
        link = self.desk.attach(
            who.user, check_device(device), leg, window=leg.window, now=self.clock(), seen=seen, end=end
        )
        user: User = link.user
        if link.seen >= end:
            _log.warning(
                "device %r of user %r has seen position %d, but the log ends at %d, so it is an older copy; "
                "what the device says it has seen is not relied on",
                *(device, who.user, link.seen >> ORDINAL_BITS, self.dispatcher.end),
            )
        waiting = sum(box.length for name, box in user.boxes.items() if name in ("", device))
        welcome = Welcome(
            *(who.user, device, leg.window, waiting),
            *(tuple(other for other in user.links if other != device), self.log.identity, self.dispatcher.end),
        )
        if new:
            self.introduce()
        self._loop.call_soon(self.settle)  # so that the caller can say WELCOME first
        return welcome

    def _is_new(self, user: str, device: str) -> bool:
        """Has nobody heard of this device? It can be promised a mailbox only if the state can be read and written."""
        self._need_loaded()
        known = self.desk.users.get(user)
        if known is not None and device in known.devices:
            return False
        self.keeper.check()
        return True

    def attach_alone(self, user: str, device: str, leg: Leg) -> None:
        """The leg delivers what is for this device, and connects nobody: a webhook."""
        self.desk.attach_alone(user, device, leg, window=leg.window, now=self.clock())
        self._loop.call_soon(self.settle)

    def acked(self, leg: Leg, upto: int) -> None:
        """The leg has got everything that came on it up to a nid."""
        self._acknowledged(self.desk.acked(leg, upto))

    def acked_one(self, leg: Leg, nid: int) -> None:
        self._acknowledged(self.desk.acked_one(leg, nid))

    def acked_apart(self, leg: Leg, nids: Collection[int]) -> None:
        """The leg has got these, but not all that came before them."""
        self._acknowledged(self.desk.acked_apart(leg, nids))

    def widen(self, leg: Leg, window: int) -> None:
        """The leg takes so many unacknowledged notifications from now on."""
        self.desk.widen(leg, window)
        self.settle()

    def _acknowledged(self, count: int) -> None:
        self.metrics.acknowledged += count
        if count and self.desk.oldest_acked is not None:
            took = (self.clock() - self.desk.oldest_acked).total_seconds()
            self.metrics.delivery_seconds.observe(max(took, 0.0), count)
        self.settle()

    def noticed(self, leg: Leg, notices: Iterable[int]) -> None:
        self.desk.noticed(leg, list(notices))
        self.settle()

    def lost(self, leg: Leg, reason: str) -> None:
        """The connection failed. What it did not acknowledge waits again."""
        if leg in self.desk.links:
            _log.debug("a connection of kind %s was lost: %s", leg.kind, reason)
            self.desk.lost(leg, self.clock())
            self.settle()

    def ended(self, leg: Leg) -> None:
        """The device ended its session."""
        self.desk.ended(leg)
        self.settle()

    # -- what there is -------------------------------------------------------------------------------------------------

    def sessions(self, who: Principal, user: str | None = None) -> list[SessionInfo]:
        """The devices of a user, or of all ("*") for an administrator."""
        return [info for owner in self._users(who, user) for info in sessions_of(owner)]

    def end_session(self, who: Principal, user: str, device: str | None = None) -> int:
        """End the session of a device, or of all devices of the user; how many there were."""
        authorise(who, "manage", user=user)
        owner = self._user(user)
        ids = [id for id in owner.devices if device in (None, id)]
        for id in ids:
            link = owner.links.get(id)
            if link is not None:
                self.desk.ended(link.key)
                link.key.close("ended")
            self.desk.forget_device(owner, id)
        self.settle()
        return len(ids)

    def mailboxes(self, who: Principal, user: str | None = None) -> list[MailboxInfo]:
        self._need_loaded()
        return [info for owner in self._users(who, user) for info in mailboxes_of(owner)]

    async def peek(
        self, who: Principal, user: str, limit: int, after_nid: int | None = None, device: str | None = None
    ) -> list[Notified]:
        """What waits for a user, oldest first; it stays there."""
        await self.when_loaded()
        authorise(who, "read", user=user)
        boxes = [box for box in self._user(user).boxes.values() if device is None or box.device in ("", device)]
        after = -1 if after_nid is None else after_nid
        notes = [n for box in boxes for n in box.notes[box.head :] if n.state == WAITING and n.nid > after]
        notes.sort(key=lambda note: note.nid)
        return [self.dispatcher.notified(note, True) for note in notes[:limit]]

    async def purge(self, who: Principal, user: str, device: str | None = None) -> int:
        """Empty the mailboxes of a user, who is told; how many notifications are gone."""
        await self.when_loaded()
        authorise(who, "manage", user=user)
        count = self.desk.purge(self._user(user), device)
        self.settle()
        await self.keeper.kept()
        return count

    def _users(self, who: Principal, user: str | None) -> list[User]:
        if user is None:
            user = who.user
        authorise(who, "read", user=user)
        if user == "*":
            return list(self.desk.users.values())
        return [self.desk.users[user]] if user in self.desk.users else []

    def _user(self, name: str) -> User:
        found = self.desk.users.get(name)
        if found is None:
            raise Unknown(f"nothing is known of user {name[:80]!r}")
        return found

    def _need_loaded(self) -> None:
        if not self.loaded:
            raise Busy("subscriptions and mailboxes are still being loaded; try again in a moment")
