"""The run: for every row a broker is started in an empty folder, loaded from another process, and stopped.

A broker that is not installed, or that fails, has a row that says so; the others go on.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from benchmarks.machine import describe
from benchmarks.service.absence import away
from benchmarks.service.attack import FILTERS, NONE, attack
from benchmarks.service.brokers import RECADO, SETTINGS, Setting, broker, missing, version
from benchmarks.service.filtering import filtered
from benchmarks.service.handover import TRANSPORTS, handover
from benchmarks.service.load import apart, percentiles, publishing
from benchmarks.service.plan import Plan
from benchmarks.service.records import AnyRecord, Attack, Away, Disk, Filtered, Handover, Publishing, Restart
from benchmarks.service.restart import restart
from benchmarks.service.targets import targets
from benchmarks.service.workload import EVENT_BYTES

PACKAGES = ("msgspec", "uvicorn", "websockets", "nats-py", "paho-mqtt")
Announce = Callable[[str], None]
R = TypeVar("R", Publishing, Filtered, Away, Handover, Attack)


def run_plan(plan: Plan, announce: Announce) -> Iterator[AnyRecord]:
    """The machine, the records of all parts as they come, and the targets."""
    records: list[AnyRecord] = []
    with tempfile.TemporaryDirectory(prefix="recado-bench-") as folder:
        for record in _records(plan, Path(folder), announce):
            records.append(record)
            yield record
    yield from targets(records)


def _records(plan: Plan, folder: Path, announce: Announce) -> Iterator[AnyRecord]:
    machine = describe(PACKAGES)
    programs = {program: version(system) for system, program in (("nats", "nats-server"), ("mosquitto", "mosquitto"))}
    machine.packages.update({program: number for program, number in programs.items() if number})
    yield machine
    yield _disk(folder)
    parts: dict[str, Callable[[Plan, Path, Announce], Iterator[AnyRecord]]]
    parts = {
        "publishing": _publishing,
        "filtered": _filtered,
        "away": _away,
        "handover": _handover,
        "restart": _restart,
        "attack": _attack,
    }
    for part in plan.parts:
        yield from parts[part](plan, folder, announce)


def _disk(folder: Path, writes: int = 200) -> Disk:
    taken = []
    with (folder / "disk").open("wb", buffering=0) as file:
        for _ in range(writes):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - began)
    p50, p99 = percentiles(taken, 50, 99)
    return Disk(p50 * 1e3, p99 * 1e3, os.getloadavg()[0])


def _publishing(plan: Plan, folder: Path, announce: Announce) -> Iterator[Publishing]:
    for publishers in plan.publishers:
        for setting in SETTINGS:
            announce(f"publishing: {setting.system}, {setting.name}, {publishers} publishers")
            empty = Publishing(setting.system, setting.name, publishers, plan.in_flight, EVENT_BYTES)
            yield _row(setting, folder, empty, publishing, publishers, plan)


def _filtered(plan: Plan, folder: Path, announce: Announce) -> Iterator[Filtered]:
    for setting in SETTINGS:
        announce(f"content-filtered delivery: {setting.system}, {setting.name}")
        empty = Filtered(setting.system, setting.name, plan.connections, plan.interests, 0, 0)
        yield _row(setting, folder, empty, filtered, plan)


def _away(plan: Plan, folder: Path, announce: Announce) -> Iterator[Away]:
    for notifications in plan.away:
        for setting in SETTINGS:
            announce(f"{notifications:,} while away: {setting.system}, {setting.name}")
            yield _row(setting, folder, Away(setting.system, setting.name, notifications), away, notifications, plan)


def _handover(plan: Plan, folder: Path, announce: Announce) -> Iterator[Handover]:
    for transport in TRANSPORTS:
        announce(f"{plan.moves:,} hand-overs: {transport}")
        empty = Handover(transport, plan.moves, plan.events_per_second)
        yield _row(TRANSPORTS[transport].setting, folder, empty, handover, transport, plan)


def _restart(plan: Plan, folder: Path, announce: Announce) -> Iterator[Restart]:
    announce(f"restart with {plan.stored:,} notifications and subscriptions")
    try:
        yield restart(folder / "restart", plan.stored)
    except Exception as error:  # noqa: BLE001  # the rest of the run goes on
        yield Restart(plan.stored, plan.stored, note=f"failed: {type(error).__name__}: {error}")


def _attack(plan: Plan, folder: Path, announce: Announce) -> Iterator[Attack]:
    for kind in (NONE, *FILTERS):
        announce(f"{plan.attack_filters:,} costly filters: {kind}")
        yield _row(RECADO, folder, Attack(kind, plan.attack_filters, 0), attack, kind, plan)


def _row(setting: Setting, folder: Path, empty: R, load: Callable[..., R], *arguments: object) -> R:
    """One row: the broker started, the load run; or the empty row with what went wrong."""
    lacking = missing(setting)
    if lacking:
        return msgspec.structs.replace(empty, note=lacking)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        try:
            with broker(setting, Path(place)) as running:
                return apart(load, running, *arguments)
        except Exception as error:  # noqa: BLE001  # whatever a broker or its client does, the other rows go on
            return msgspec.structs.replace(empty, note=f"failed: {type(error).__name__}: {error}")
