"""The event service against brokers that people run: nats-server with JetStream and mosquitto, on loopback.

For every row a broker is started in an empty folder, loaded from another process, and stopped. A broker that is not
installed, or that fails, has a row that says so; the others go on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.harness import Case, Record, Subject
from benchmarks.service.attack import FILTERS, NONE, attack
from benchmarks.service.brokers import PROGRAMS, RECADO, SETTINGS, Setting, broker, missing, version
from benchmarks.service.handover import TRANSPORTS, handover
from benchmarks.service.loads import away, filtered, publishing, restart
from benchmarks.service.report import (
    TABLES,
    TARGETS,
    Attack,
    Away,
    Disk,
    Filtered,
    Handover,
    Publishing,
    Restart,
)
from benchmarks.service.workload import EVENT_BYTES, PARTS, Plan, full_plan, quick_plan
from benchmarks.timing import percentiles, run_apart

NOTE = """\
Every broker is a process of its own on loopback with an empty folder, the load is another process, and both share the
machine. The load uses each system's own Python client: Recado's over WebSocket, nats-py with JetStream, paho-mqtt
with quality 1. Publications are measured in three rounds of ten seconds (one of three with `--quick`), and the round
with the most acknowledgements counts, for every broker: another user of the host disturbs some of them.

- nats, *default*: an acknowledged message is written, and synced every two minutes. *sync always*: synced before the
  acknowledgement, as Recado does it.
- mosquitto, *default*: persistence is on, and the database is written every half hour; at most 1,000 messages are kept
  for a client who is away. *safest*: the database is written after every change, and the queue has no bound; the
  acknowledgement still does not wait for that. It keeps events only for clients that are away, so there is one.

*x* is what Recado does against that row, in the same run. In the filtered part the clients of the other brokers get
every event and look up in a table whether they want it; Recado's get what they asked for. NATS and mosquitto deliver
there without acknowledgements, which is their fastest way; Recado's clients acknowledge. *MB received* is what the
kernel counted on the subscribers' connections."""


def plan(quick: bool, parts: Sequence[str]) -> list[Case]:
    return make_cases(quick_plan() if quick else full_plan())


def make_cases(size: Plan) -> list[Case]:
    """A case for each row; that of the disk, on which every durable figure rests, is always run."""
    cases = [Case("", "the disk", _disk)]

    def add(part: str, title: str, setting: Setting, empty: Record, load: Callable[..., Record], *rest: Any) -> None:
        cases.append(Case(part, title, partial(_row, setting, empty, load, rest)))

    for publishers in size.publishers:
        for one in SETTINGS:
            blank = Publishing(one.system, one.name, publishers, size.in_flight, EVENT_BYTES)
            title = f"publishing: {one.system}, {one.name}, {publishers} publishers"
            add("publishing", title, one, blank, publishing, publishers, size)
    for one in SETTINGS:
        empty = Filtered(one.system, one.name, size.connections, size.interests, 0, 0)
        add("filtered", f"content-filtered delivery: {one.system}, {one.name}", one, empty, filtered, size)
    for count in size.away:
        for one in SETTINGS:
            title = f"{count:,} while away: {one.system}, {one.name}"
            add("away", title, one, Away(one.system, one.name, count), away, count, size)
    for transport, traveller in TRANSPORTS.items():
        still = Handover(transport, size.moves, size.events_per_second)
        add("handover", f"{size.moves:,} hand-overs: {transport}", traveller.setting, still, handover, transport, size)
    title = f"restart with {size.stored:,} notifications and subscriptions"
    cases.append(Case("restart", title, partial(_restart, size.stored)))
    for kind in (NONE, *FILTERS):
        title = f"{size.attack_filters:,} costly filters: {kind}"
        add("attack", title, RECADO, Attack(kind, size.attack_filters, 0), attack, kind, size)
    return cases


def _disk(folder: Path, writes: int = 200) -> Iterator[Disk]:
    taken = []
    with (folder / "disk").open("wb", buffering=0) as file:
        for _ in range(writes):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - began)
    p50, p99 = percentiles(taken, 50, 99)
    yield Disk(p50 * 1e3, p99 * 1e3, os.getloadavg()[0])


def _row(
    setting: Setting, empty: Record, load: Callable[..., Record], arguments: tuple[Any, ...], folder: Path
) -> Iterator[Record]:
    """The broker started, the load run; or the empty row with what went wrong."""
    lacking = missing(setting)
    if lacking:
        yield msgspec.structs.replace(empty, note=lacking)
        return
    try:
        with broker(setting, folder) as running:
            found = run_apart(load, running, *arguments)
    except Exception as error:  # noqa: BLE001  # whatever a broker or its client does, the other rows go on
        found = msgspec.structs.replace(empty, note=f"failed: {type(error).__name__}: {error}")
    yield found


def _restart(stored: int, folder: Path) -> Iterator[Restart]:
    try:
        yield restart(folder, stored)
    except Exception as error:  # noqa: BLE001  # the rest of the run goes on
        yield Restart(stored, stored, note=f"failed: {type(error).__name__}: {error}")


SUBJECT = Subject(
    name="service",
    title="The service, measured",
    parts=PARTS,
    plan=plan,
    tables=TABLES,
    targets=TARGETS,
    note=NOTE,
    packages=("msgspec", "uvicorn", "websockets", "nats-py", "paho-mqtt"),
    programs=lambda: {program: version(system) for system, program in PROGRAMS.items()},
    one_core=False,
)
