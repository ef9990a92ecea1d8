"""Maintenance: what a service does besides its calls. Retention and sealing, sweeps, a new index, backup.

All that takes long happens in a thread of its own; the loop is never kept waiting.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

from recado import files
from recado.broker.persistence import matchable
from recado.broker.stimuli import Effect, Expire, Stimulus, Sweep, SweepUnfinished
from recado.errors import RecadoError
from recado.server.canary import ServiceCanary
from recado.server.committer import LogCommitter
from recado.server.config import Config
from recado.server.dispatcher import Dispatcher
from recado.server.storage import Storage
from recado.store.protocols import EventLog
from recado.store.state import STATE_FILE, copy_state

TURN_SECONDS = 1.0
EXPIRE_EVERY = 30
SAVE_EVERY = 600
RETRY_EVERY = 30
REMEMBERED = 4_096
SWEPT = 500
"""Subscriptions or users that one step looks at."""
_log = logging.getLogger("recado.server")


class Maintenance:
    """``apply`` gives the broker a stimulus and carries out the effects, which it returns; ``loaded`` tells whether
    subscriptions and mailboxes are there.
    """

    def __init__(
        self,
        config: Config,
        log: EventLog,
        dispatcher: Dispatcher,
        canary: ServiceCanary,
        *,
        storage: Storage,
        committer: LogCommitter,
        apply: Callable[[Stimulus], Sequence[Effect]],
        loaded: Callable[[], bool],
    ) -> None:
        self._storage, self._committer = storage, committer
        self._config, self._log, self._dispatcher, self._canary = config, log, dispatcher, canary
        self._apply, self._loaded = apply, loaded
        self.thread = ThreadPoolExecutor(1, "recado-maintenance")
        self._told = ""
        self._failing: dict[str, str] = {}

    async def run(self) -> None:
        """Seal, end what has expired, and sweep, until cancelled."""
        loop = asyncio.get_running_loop()
        swept, turn = loop.time(), 0
        while True:
            await asyncio.sleep(TURN_SECONDS)
            turn += 1
            await self._try("looking after the log", self._maintain_log(turn))
            if self._loaded():
                await self._try("looking after similarities", self._maintain_matcher(turn))
                await self._try("ending what has expired", self.expire())
            if self._loaded() and loop.time() - swept >= self._config.subscriptions.sweep_seconds:
                swept = loop.time()
                await self._try("sweeping", self.sweep())

    async def _try(self, what: str, step: Awaitable[None]) -> None:
        """A fault in one step stops neither the others nor the turns to come; it is counted and logged once."""
        try:
            await step
        except Exception as error:  # noqa: BLE001  # nobody foresaw it
            if self._failing.get(what) != repr(error):
                self._dispatcher.note_fault()
                _log.exception("%s failed, and is tried again", what)
            self._failing[what] = repr(error)
        else:
            self._failing.pop(what, None)

    async def _maintain_log(self, turn: int) -> None:
        run = asyncio.get_running_loop().run_in_executor
        await run(self.thread, self._storage.look)
        self._tell_trouble()
        if self._storage.trouble:
            return
        self._committer.probe()
        try:
            await run(self.thread, self._seal_and_expire, turn % EXPIRE_EVERY == 0)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next turn may succeed
            _log.error("maintenance of the log failed and is tried again: %s", error)

    def _tell_trouble(self) -> None:
        """When it begins, or becomes another one, and when it is over."""
        trouble = self._storage.trouble
        if trouble and trouble != self._told:
            _log.error("nothing is accepted: %s", trouble)
        elif self._told and not trouble:
            _log.warning("events are accepted again")
        self._told = trouble

    async def _maintain_matcher(self, turn: int) -> None:
        """Keep similarities, and put subscriptions back that could not be used."""
        run, matcher = asyncio.get_running_loop().run_in_executor, self._dispatcher.matcher
        try:
            if turn % SAVE_EVERY == 0:
                await run(self.thread, matcher.save_cache)
            if matcher.trouble and turn % RETRY_EVERY == 0:
                matcher.put_back(await run(self.thread, matcher.usable_again))
        except Exception as error:  # noqa: BLE001  # see above
            _log.error("maintenance of similarities failed and is tried again: %s", error)

    def _seal_and_expire(self, expire: bool) -> None:
        self._log.maintain()
        if expire:
            settings = self._config.log
            age = timedelta(seconds=settings.retain_seconds) if settings.retain_seconds else None
            self._log.retain(age, settings.retain_bytes or None)

    async def expire(self) -> None:
        """End the subscriptions whose time has come, and tell their owners."""
        await self._step(Expire(self._dispatcher.end, SWEPT))

    async def sweep(self) -> None:
        """Drop what is too old, and what nobody has met, in many turns of the loop."""
        age = timedelta(seconds=self._config.sessions.leg_ttl_seconds)
        await self._step(Sweep(self._dispatcher.end, age, SWEPT))

    async def _step(self, step: Expire | Sweep) -> None:
        while any(type(effect) is SweepUnfinished for effect in self._apply(step)):
            await asyncio.sleep(0)

    async def rebuild_index(self) -> None:
        """Build the index of exact subscriptions anew, in a thread, while events wait for it."""
        matcher = self._dispatcher.matcher
        subscriptions = list(self._dispatcher.broker.state.subscriptions.values())
        matcher.building_anew()
        try:
            fresh = await asyncio.to_thread(matcher.build, map(matchable, subscriptions))
        except Exception as error:  # noqa: BLE001  # events must not wait for ever
            _log.exception("the index cannot be built anew")
            matcher.take(None)
            self._canary.built(str(error) or type(error).__name__)
        else:
            matcher.take(fresh)
            self._canary.built()
        self._dispatcher.resume()


def remember_newest(committer: LogCommitter, log: EventLog) -> None:
    """Events that an agent may send again, since it does not know that they were stored before the restart."""
    for batch in log.read(max(0, log.end - REMEMBERED), on_damage=lambda _: None):
        columns = [batch.column(name).to_pylist() for name in ("position", "id", "event")]
        for position, event_id, event in zip(*columns, strict=True):
            committer.remember(event_id, event.encode(), position)


def check_target(target: Path, data: Path) -> None:
    """Raise what stands against a backup there."""
    try:
        if target.exists() and any(target.iterdir()):
            raise RecadoError(f"{target} is not empty; a backup goes into a new folder")
        if target.resolve().is_relative_to(data.resolve()):
            raise RecadoError(f"{target} lies in the data folder, and would be lost with it; name another place")
    except OSError as error:
        raise RecadoError(f"the backup to {target} failed: {error.strerror or error}") from None


def copy_files(data: Path, log: EventLog, target: Path) -> None:
    """First the state, then the log: so the log has all that the state speaks of, and perhaps more."""
    draft = target.with_name(target.name + ".draft")
    try:
        if draft.exists():
            shutil.rmtree(draft)
        draft.mkdir(mode=files.PRIVATE_FOLDER, parents=True)
        copy_state(data / STATE_FILE, draft / STATE_FILE)
        log.copy(draft / "log")
        if target.exists():
            target.rmdir()
        files.rename(draft, target)
        files.sync_folder(target.parent)
    except OSError as error:
        raise RecadoError(f"the backup to {target} failed: {error.strerror or error}") from error
