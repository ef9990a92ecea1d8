"""E2 and E5: a subscriber that moves, and one that is away; with the baselines B0 to B3.

B0 knows a subscriber by address and sends plain datagrams: after the first move they go where nobody is. B2 detects
disconnection and keeps nothing. B3 has no session update: the broker learns the new address when the device refreshes
its registration, every 150 seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import timedelta
from itertools import pairwise

from experiments.mobility.town import Numbers, Town, percentile
from recado.broker.state import Bounds
from recado.sim.mobility.device import Refresh

RATE, EVERY_SECONDS, REFRESH_SECONDS = 20.0, 5.0, 150.0


def moves(quick: bool) -> Numbers:
    """E2: a move every 5 seconds, 20 events a second."""
    count = 10 if quick else 50
    answers: Numbers = {"moves": count}
    for name, town in (("MD-ECI", Town()), ("B2", Town(queues=False)), ("B3", Town(updates=False))):
        answers |= {f"{name}.{key}": value for key, value in _moved(town, count).items()}
    events = int(RATE * EVERY_SECONDS * (count + 1))
    answers |= {"B0.events": events, "B0.lost": events - int(RATE * EVERY_SECONDS)}
    return answers


def _moved(town: Town, count: int) -> Numbers:
    town.subscribe()
    start = town.simulation.now
    town.publish_steadily(RATE, EVERY_SECONDS * (count + 1))
    moments = [start + EVERY_SECONDS * (number + 1) + 0.01 for number in range(count)]
    for moment in moments:
        town.simulation.at(moment, town.move)
    end = EVERY_SECONDS * (count + 1) + 2 * REFRESH_SECONDS
    for number in range(1, int(end / REFRESH_SECONDS)):
        town.simulation.ask("phone", Refresh(), start + number * REFRESH_SECONDS)
    town.run(end)
    heard = town.numbers()
    times = [now for now, _, _ in town.heard]
    first = [bisect_right(times, moment) for moment in moments]
    gaps = [times[at] - moment for at, moment in zip(first, moments, strict=True) if at < len(times)]
    return {
        "events": town.published,
        "lost": town.published - len(set(heard)),
        "duplicated": len(heard) - len(set(heard)),
        "reordered": sum(one > two for one, two in pairwise(heard)),
        "gap.p50": percentile(gaps, 50),
        "gap.p95": percentile(gaps, 95),
    }


def absence(quick: bool) -> Numbers:
    """E5: away for T seconds at r events a second, with the document's queue of 100 and 20 minutes."""
    bounds = Bounds(length=100, bytes=2**40)
    answers: Numbers = {}
    for seconds in (10, 40) if quick else (10, 40, 100, 400):
        town = away(Town(bounds=bounds), rate=2.0, seconds=seconds)
        heard = town.numbers()
        expected = list(range(town.published))[-100:]
        answers |= {
            f"{seconds}.delivered": len(heard),
            f"{seconds}.newest": float(heard == expected),
            f"{seconds}.drain": town.heard[-1][0] - town.heard[0][0],
        }
    lost = away(Town(queues=False), rate=2.0, seconds=40)
    answers["B2.delivered"] = len(lost.numbers())
    old = away(Town(bounds=Bounds(length=10_000, age=timedelta(minutes=20))), rate=0.1, seconds=300, pause=1_100)
    answers["aged.delivered"] = len(old.numbers())
    return answers


def away(town: Town, rate: float, seconds: float, pause: float = 60.0) -> Town:
    """Everything that is published is published while the device is away."""
    town.subscribe()
    town.move(covered=False)
    town.run(0.5)
    town.publish_steadily(rate, seconds)
    town.run(seconds + pause)
    town.heard.clear()
    town.move()
    town.run(120)
    return town
