"""RUDP on loopback, both sides in one process: messages a second one way, and the time of one there and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.harness import Case, Record, Subject, table
from recado.net import RudpEndpoint, new_key
from recado.protocols.rudp import PROFILES, QueueFull

TRIED = ("classic", "fast")


class Messages(Record, frozen=True, tag="messages"):
    """Messages of one size with one profile; the CPU seconds are those of both sides."""

    profile: str
    size: int
    messages: int
    datagrams: int
    resent: int
    seconds: float
    cpu_seconds: float
    round_trip_seconds: float


def plan(quick: bool, parts: Sequence[str]) -> list[Case]:
    seconds = 0.3 if quick else 2.0
    return [
        Case(profile, f"{profile}, {size:,} bytes", partial(_messages, profile, size, seconds))
        for profile in TRIED
        for size in (200, 1_200, 64_000)
    ]


def _messages(profile: str, size: int, seconds: float, _: Path) -> Iterator[Messages]:
    yield asyncio.run(send_messages(profile, size, seconds))


async def send_messages(profile: str, size: int, seconds: float) -> Messages:
    """As many as the queue takes."""
    sender, receiver = (RudpEndpoint(("127.0.0.1", 0), PROFILES[profile]) for _ in range(2))
    received = 0

    def count(_: object) -> None:
        nonlocal received
        received += 1

    near, far = sender.new_conn_id(), receiver.new_conn_id()
    near_key, far_key = new_key(), new_key()
    link = sender.open(receiver.address, near, far, _ignore, _ignore, local_key=near_key, remote_key=far_key)
    receiver.open(sender.address, far, near, count, _ignore, local_key=far_key, remote_key=near_key)
    message, end = bytes(size), time.perf_counter() + seconds
    started, cpu_started = time.perf_counter(), time.process_time()
    while time.perf_counter() < end:
        try:
            for _ in range(100):
                link.post(message)
        except QueueFull:
            pass
        await asyncio.sleep(0)
    await link.ping()
    taken, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    counters = sender.counters()
    datagrams = 2 * (counters.sent + counters.resent)
    found = Messages(profile, size, received, datagrams, counters.resent, taken, cpu, link.rtt_seconds)
    sender.close()
    receiver.close()
    return found


def _ignore(*_: object) -> None:
    """Nothing comes back to the sender."""


SUBJECT = Subject(
    name="rudp",
    title="RUDP, measured",
    parts=TRIED,
    plan=plan,
    tables=(
        table(
            "Messages over loopback, both sides in one process",
            Messages,
            {
                "profile": lambda r: r.profile,
                "bytes": lambda r: r.size,
                "messages/s": lambda r: r.messages / r.seconds,
                "messages/CPU s": lambda r: r.messages / r.cpu_seconds,
                "datagrams/CPU s": lambda r: r.datagrams / r.cpu_seconds,
                "MB/s": lambda r: r.messages * r.size / r.seconds / 1e6,
                "resent": lambda r: r.resent,
                "round trip, us": lambda r: r.round_trip_seconds * 1e6,
            },
        ),
    ),
    packages=("msgspec",),
)
