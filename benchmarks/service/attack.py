"""An attack as a load: one user's costly filters and large events, while others publish and ask for the health.

The attacker has many filters that only the plain evaluator can decide, and publishes events that are costly for all of
them: arrays of strings as long as the limits allow. Another client publishes small events at a steady pace, one of its
own subscriptions gets each of them, and ``/healthz`` is asked again and again. What these three see is measured; what
the attacker gets is not, but for how often it was told that an event was not matched with one of its subscriptions. The
same large events without any filter (``NONE``) are what the others are to be compared with.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx

from benchmarks.service.brokers import Running
from benchmarks.service.drivers.recado import DAY_SECONDS
from benchmarks.service.report import Attack
from benchmarks.service.workload import Plan
from benchmarks.timing import percentiles
from recado.client import Client, connect
from recado.errors import RecadoError

TYPE = "Attack"
PACE_SECONDS = 0.02
"""Between two publications of the client that is measured, and between two looks at the health."""
LARGE_SECONDS = 0.5
"""Between two large events."""
WORST_SECONDS = 60.0
"""How long anything may take before it counts as failed."""
STRINGS, CHARS = 9, 65_536
LETTERS = "ab"
WHO = {"X-Recado-User": "operator"}


def attack(at: Running, kind: str, plan: Plan) -> Attack:
    return asyncio.run(_attack(at, kind, plan))


async def _attack(at: Running, kind: str, plan: Plan) -> Attack:
    seen = _Seen()
    filters = [FILTERS[kind](number) for number in range(plan.attack_filters)] if kind in FILTERS else []
    event = large_event(kind)
    await _loaded(at.port)
    await _subscribe(at.port, filters)
    async with connect(f"recado://trudy@127.0.0.1:{at.port}", device="bench") as trudy:
        url = f"recado://alice@127.0.0.1:{at.port}"
        async with (
            connect(url, device="bench") as alice,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{at.port}", timeout=WORST_SECONDS, trust_env=False) as http,
        ):
            mine = alice.subscribe(type="Small", id="mine", ttl=DAY_SECONDS)
            await mine.ready()
            hearing = asyncio.create_task(seen.hear(mine))
            end = time.perf_counter() + plan.attack_seconds
            others = asyncio.gather(seen.publish(alice, end), seen.look(http, end))
            published = await _publish_large(trudy, event, end)
            await others
            await seen.all_there()
            hearing.cancel()
            told = _counted((await http.get("/metrics", headers=WHO)).text, 'recado_dropped_total{reason="budget"}')
    publish_p50, publish_p99 = percentiles(seen.publish_seconds, 50, 99)
    health_p50, health_p99 = percentiles(seen.health_seconds, 50, 99)
    arrivals = list(seen.arrival_seconds.values())
    (delivery_p99,) = percentiles(arrivals, 99) if arrivals else (0.0,)
    return Attack(
        kind,
        len(filters),
        len(str(event)),
        published,
        plan.attack_seconds,
        publish_p50_ms=1e3 * publish_p50,
        publish_p99_ms=1e3 * publish_p99,
        publish_max_ms=1e3 * max(seen.publish_seconds),
        health_p50_ms=1e3 * health_p50,
        health_p99_ms=1e3 * health_p99,
        health_max_ms=1e3 * max(seen.health_seconds),
        delivery_p99_ms=1e3 * delivery_p99,
        lost=len(seen.publish_seconds) - len(arrivals),
        told=int(told),
    )


async def _loaded(port: int) -> None:
    """Wait until the service has loaded and has its machine code, as one that has been running for a while."""
    async with httpx.AsyncClient(timeout=WORST_SECONDS, trust_env=False) as http:
        while not (await http.get(f"http://127.0.0.1:{port}/v1/status", headers=WHO)).json()["kernels"]:
            await asyncio.sleep(PACE_SECONDS)


async def _subscribe(port: int, filters: list[str]) -> None:
    """The attacker's subscriptions stay when it goes: what they get is not to be a load of its own."""
    async with connect(f"recado://mallory@127.0.0.1:{port}", device="bench") as mallory:
        made = [
            mallory.subscribe(text, type=TYPE, id=f"s-{number}", ttl=DAY_SECONDS) for number, text in enumerate(filters)
        ]
        await asyncio.gather(*(one.ready() for one in made))


async def _publish_large(trudy: Client, event: dict[str, Any], end: float) -> int:
    """One large event after another; how many. More of them would measure how fast the disk is."""
    count = 0
    while time.perf_counter() < end:
        try:
            await asyncio.wait_for(trudy.publish({**event, "number": count}), WORST_SECONDS)
        except Exception:  # noqa: BLE001  # refused, or it took too long: the attacker tries again
            await asyncio.sleep(PACE_SECONDS)
        count += 1
        await asyncio.sleep(LARGE_SECONDS)
    return count


class _Seen:
    """What those see who do nothing wrong."""

    def __init__(self) -> None:
        self.publish_seconds: list[float] = []
        self.health_seconds: list[float] = []
        self.arrival_seconds: dict[int, float] = {}
        self._sent: dict[int, float] = {}

    async def publish(self, client: Client, end: float) -> None:
        """At a steady pace, whatever the answers take."""
        number, waiting = 0, []
        while time.perf_counter() < end:
            waiting.append(asyncio.create_task(self._publish_one(client, number)))
            number += 1
            await asyncio.sleep(PACE_SECONDS)
        await asyncio.gather(*waiting)

    async def _publish_one(self, client: Client, number: int) -> None:
        began = self._sent[number] = time.perf_counter()
        with suppress(RecadoError):  # it took so long that the client gave up: that is how long it took
            await client.publish({"type": "Small", "number": number})
        self.publish_seconds.append(time.perf_counter() - began)

    async def hear(self, subscription: Any) -> None:
        async for notification in subscription:
            number = notification["number"]
            self.arrival_seconds.setdefault(number, time.perf_counter() - self._sent[number])

    async def look(self, http: httpx.AsyncClient, end: float) -> None:
        while time.perf_counter() < end:
            began = time.perf_counter()
            with suppress(httpx.HTTPError):  # see above
                await http.get("/healthz")
            self.health_seconds.append(time.perf_counter() - began)
            await asyncio.sleep(PACE_SECONDS)

    async def all_there(self) -> None:
        deadline = time.perf_counter() + WORST_SECONDS
        while len(self.arrival_seconds) < len(self._sent) and time.perf_counter() < deadline:
            await asyncio.sleep(PACE_SECONDS)


def _counted(metrics: str, name: str) -> float:
    return sum(float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if line.startswith(name))


# -- what the attacker sends -------------------------------------------------------------------------------------------


def large_event(kind: str) -> dict[str, Any]:
    """About 600 KB of strings, in an array."""
    rng = random.Random(13)
    count, chars = (256, 2_400) if kind == "views" else (STRINGS, CHARS)
    return {"type": TYPE, "text": ["".join(rng.choices(LETTERS, k=chars)) for _ in range(count)]}


def _similar(number: int) -> str:
    text = "".join(random.Random(number).choices(LETTERS, k=1_000))
    return f'text similar to "{text}" at 0.01'


def _patterns(number: int) -> str:
    """Patterns whose states are too many to be remembered, so that each character is compared with all of them."""
    if number % 2:
        return f'text matches ".*a.{{{500 + number % 480}}}b(c{number}|d)"'
    return f'text like "*a{"?" * (900 + number % 100)}b*c{number}"'


def _views(number: int) -> str:
    """Every element is searched for something that is not there, and each choice of an element is looked at."""
    return f'not (text contains "z{number}") and not (text like "*a*b*")'


NONE = "none"
FILTERS: dict[str, Callable[[int], str]] = {"similar": _similar, "patterns": _patterns, "views": _views}
