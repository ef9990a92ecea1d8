"""The core of the engine: files and threads, events in, and what happens when something has happened.

``recado.service.engine`` has the whole picture, and the rest of the interface.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

from recado.delivery.desk import Desk
from recado.delivery.standing import Standing
from recado.errors import RecadoError
from recado.matching.undecided import is_narrow
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.service import engine_upkeep as upkeep
from recado.service.budgets import Budgets
from recado.service.canary import ServiceCanary
from recado.service.config import Config, Semantics
from recado.service.dispatch import Dispatcher
from recado.service.engine_keeper import Keeper
from recado.service.engine_recovery import Recovery
from recado.service.engine_replay import replayed, sieve_of
from recado.service.engine_views import Held, held
from recado.service.intake import Done, Intake
from recado.service.matching import Matcher
from recado.service.matching_ahead import Ahead
from recado.service.matching_config import read_understanding
from recado.service.matching_kernels import take_kernels
from recado.service.metrics import Metrics
from recado.service.permissions import Busy, Principal, authorise
from recado.service.slowing import Slowed
from recado.store.log import EventLog, LogReader
from recado.store.log.settings import OnDamage
from recado.store.log.writer import wall_clock
from recado.store.state import StateStore

Clock = Callable[[], datetime]
REPLAY_THREADS = 4
SWITCH_SECONDS = 0.0005
"""How long a busy loop may keep the log's thread from going on after each step: that is what an fsync waits for."""
_log = logging.getLogger("recado.service")


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
        """Events that take long, of a user over the budget, and those after them; see ``recado.service.slowing``."""

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
        """Events with new names, and those of the same user after them; see ``recado.service.matching_ahead``."""

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
