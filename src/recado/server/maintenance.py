"""What an engine does besides its calls: retention and sealing, sweeps, backup, status, closing.

All that takes long happens in a thread of its own; the loop is never kept waiting.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from recado.broker.mailbox import Bounds
from recado.broker.state import Standing
from recado.errors import RecadoError
from recado.model.limits import LIMITS
from recado.model.subscription import Subscription
from recado.server.committer import Intake
from recado.server.config import Config
from recado.server.requests import read_record
from recado.store.log import LogReader, LogSettings
from recado.store.state import STATE_FILE, copy_state

if TYPE_CHECKING:
    from recado.server.engine import EngineCore

UPKEEP_SECONDS = 1.0
EXPIRE_EVERY = 30
SAVE_EVERY = 600
RETRY_EVERY = 30
REMEMBERED = 4_096
_log = logging.getLogger("recado.server")


def bounds_of(config: Config) -> Bounds:
    age = config.mailbox.age_seconds
    return Bounds(config.mailbox.length, config.mailbox.bytes, timedelta(seconds=age) if age else None)


def log_settings(config: Config) -> LogSettings:
    return LogSettings(
        segment_rows=config.log.segment_rows,
        segment_bytes=config.log.segment_bytes,
        segment_age_seconds=config.log.segment_age_seconds,
        limits=msgspec.structs.replace(LIMITS, event_bytes=min(config.limits.event_bytes, LIMITS.event_bytes)),
    )


def remember_newest(intake: Intake, reader: LogReader, end: int) -> None:
    """Events that an agent may send again, since it does not know that they were stored before the restart."""
    for batch in reader.read(max(0, end - REMEMBERED), on_damage=lambda _: None):
        columns = [batch.column(name).to_pylist() for name in ("position", "id", "event")]
        for position, id, event in zip(*columns, strict=True):
            intake.remember(id, event.encode(), position)


def subscription_of(standing: Standing) -> Subscription:
    """As the matcher takes it."""
    return read_record({"id": str(standing.serial), **standing.record})


def match_from_now(engine: EngineCore, standing: Standing, subscription: Subscription) -> None:
    """Put a new subscription into the matcher, and take out the one that it replaces."""
    engine.matcher.add(msgspec.structs.replace(subscription, id=str(standing.serial)))
    engine.dispatcher.forget_ended()


# -- upkeep ------------------------------------------------------------------------------------------------------------


async def keep_up(engine: EngineCore) -> None:
    """Seal, expire and sweep, until cancelled."""
    loop = asyncio.get_running_loop()
    swept, turn = loop.time(), 0
    while True:
        await asyncio.sleep(UPKEEP_SECONDS)
        turn += 1
        try:
            await loop.run_in_executor(engine.background, _tend_log, engine, turn % EXPIRE_EVERY == 0)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next turn may succeed
            _log.error("the log's upkeep failed and is tried again: %s", error)
        if engine.loaded:
            await _tend_meaning(engine, turn)
        if engine.loaded and loop.time() - swept >= engine.config.subscriptions.sweep_seconds:
            swept = loop.time()
            await sweep(engine)


async def _tend_meaning(engine: EngineCore, turn: int) -> None:
    """Keep similarities, and put subscriptions back that could not be used."""
    run, matcher = asyncio.get_running_loop().run_in_executor, engine.matcher
    try:
        if turn % SAVE_EVERY == 0:
            await run(engine.background, matcher.save_cache)
        if matcher.trouble and turn % RETRY_EVERY == 0:
            matcher.put_back(await run(engine.background, matcher.usable_again))
    except Exception as error:  # noqa: BLE001  # see above
        _log.error("the upkeep of similarities failed and is tried again: %s", error)


def _tend_log(engine: EngineCore, expire: bool) -> None:
    engine.log.checkpoint()
    engine.log.seal()
    if expire:
        settings = engine.config.log
        age = timedelta(seconds=settings.retain_seconds) if settings.retain_seconds else None
        engine.log.expire(age, settings.retain_bytes or None)


async def sweep(engine: EngineCore) -> None:
    """Everything that lazy checks have not met, in many turns of the loop."""
    age = timedelta(seconds=engine.config.sessions.leg_ttl_seconds)
    for _ in engine.desk.sweeping(engine.dispatcher.end, engine.clock(), age):
        engine.dispatcher.forget_ended()
        engine.settle()
        await asyncio.sleep(0)
    engine.settle()


async def rebuild_index(engine: EngineCore) -> None:
    """Build the index of exact subscriptions anew, in a thread, while events wait for it."""
    matcher = engine.matcher
    standings = list(engine.desk.standings.values())
    matcher.building_anew()
    try:
        fresh = await asyncio.to_thread(matcher.build, map(subscription_of, standings))
    except Exception as error:  # noqa: BLE001  # events must not wait for ever
        _log.exception("the index cannot be built anew")
        matcher.take(None)
        engine.canary.built(str(error) or type(error).__name__)
    else:
        matcher.take(fresh)
        engine.canary.built()
    engine.dispatcher.resume()


# -- backup, status, end -----------------------------------------------------------------------------------------------


async def back_up(engine: EngineCore, target: Path) -> None:
    """First the state, then the log: so the log has all that the state speaks of, and perhaps more."""
    if target.exists() and any(target.iterdir()):
        raise RecadoError(f"{target} is not empty; a backup goes into a new folder")
    await engine.keeper.kept()
    await asyncio.to_thread(_copy, engine, target)


def _copy(engine: EngineCore, target: Path) -> None:
    draft = target.with_name(target.name + ".draft")
    try:
        if draft.exists():
            shutil.rmtree(draft)
        draft.mkdir(parents=True)
        copy_state(Path(engine.config.data) / STATE_FILE, draft / STATE_FILE)
        engine.log.copy(draft / "log")
        if target.exists():
            target.rmdir()
        draft.rename(target)
    except OSError as error:
        raise RecadoError(f"the backup to {target} failed: {error.strerror or error}") from error


def status_of(engine: EngineCore) -> dict[str, Any]:
    desk = engine.desk
    meaning = engine.matcher.trouble if engine.loaded else ""
    told = (engine.trouble, engine.intake.trouble, engine.keeper.trouble, meaning, engine.canary.trouble)
    trouble = [text for text in told if text]
    return {
        "ready": engine.ready,
        "loaded": engine.loaded,
        "kernels": engine.loaded and engine.matcher.is_compiled,
        "first": engine.log.first,
        "end": engine.dispatcher.end,
        "dispatched": engine.dispatcher.position,
        "subscriptions": desk.active,
        "users": len(desk.users),
        "sessions": len(desk.links),
        "waiting": desk.waiting.length,
        "waiting_bytes": desk.waiting.bytes,
        "faults": engine.dispatcher.faults,
        "over_budget": len(engine.dispatcher.verifier.over()),
        "damage": list(engine.damage),
        "trouble": trouble,
    }


async def close_files(engine: EngineCore) -> None:
    """Keep what is not kept yet, if that is possible; the log has the rest."""
    if engine.loaded:
        try:
            await engine.keeper.kept()
        except RecadoError as error:
            _log.error("the state could not be written at the end; the next start derives it from the log: %s", error)
    await asyncio.to_thread(_close, engine)


def _close(engine: EngineCore) -> None:
    if engine.loaded:
        engine.matcher.save_cache()
    engine.background.shutdown()
    engine.dispatcher.verifier.close()
    engine.replaying.shutdown(cancel_futures=True)
    engine.intake.close()
    engine.keeper.close()
    engine.log.close()
