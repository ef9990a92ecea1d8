"""Which runs there are. A variant is a run without its seed; its name has the system and the side of the square."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from experiments.sensornetwork.workload import Workload
from experiments.sensornetwork.world import Numbers, Run, measure_run

DENSE = (500, 700, 900, 1100, 1300, 1500)
"""Connected placements; the paper's areas are unknown (13-A1)."""
THINNEST = {"prototype": (2000, 2250), "sparse": (1750, 2000)}
"""The two lowest densities of a profile, in which the network is in pieces (outline 9.3)."""
SAMPLE = (500, 1100, 1500)

DAY = Workload()
SHORT = Workload(publications=300, publish_seconds=18_000.0)
SMALL = Workload(publications=60, publish_seconds=3_600.0)
TINY = Workload(subscriptions=30, publications=24, publish_seconds=1_440.0)

PROPOSED: dict[str, Any] = {}
FLOODING = {"system": "publication-flooding"}
EVERYWHERE = {"system": "subscription-flooding"}
REPAIRING = {"repair": "local", "rreq_retry": "on", "refresh_seconds": 600.0}
MOVING = {**REPAIRING, "route_expiry": True, "shuffle": True}

Variant = tuple[Run, int]
"""A run, and how many seeds it has."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large an evaluation is: seeds of the two systems on the ideal channel, and of all others."""

    workload: Workload
    seeds: int
    more: int
    sides: tuple[int, ...] = DENSE
    sample: tuple[int, ...] = SAMPLE
    only: frozenset[str] = frozenset()
    """If there are any, nothing else is run."""


FULL = Size(workload=DAY, seeds=20, more=5)
QUICK = Size(
    workload=TINY, seeds=1, more=1, sides=(500, 1500), sample=(500, 1500),
    only=frozenset((
        "proposed-500", "proposed-1500", "proposed-2250", "flooding-500", "flooding-1500", "everywhere-1500",
        "sparse-1500", "ungrouped-1500", "csma-1500", "speed-5-repair", "failed-0.3", "battery-proposed", "nodes-100",
    )),
)  # fmt: skip


def variants(size: Size) -> dict[str, Variant]:
    found: dict[str, Variant] = {}

    def add(name: str, side: float, options: Mapping[str, Any], seeds: int, **more: Any) -> None:
        connected = side <= DENSE[-1]
        given = {"workload": size.workload, "connected": connected, **more}
        found[name] = Run(side_metres=side, options=options, **given), seeds

    for side in (*size.sides, *THINNEST["prototype"]):
        add(f"proposed-{side}", side, PROPOSED, size.seeds)
        add(f"flooding-{side}", side, FLOODING, size.seeds)
    for side in (*size.sides, *THINNEST["prototype"]):
        add(f"everywhere-{side}", side, EVERYWHERE, size.more)
    for side in (*size.sides, *THINNEST["sparse"]):
        add(f"sparse-{side}", side, {"pampa": "sparse"}, size.more)
        add(f"sparse-flooding-{side}", side, {**FLOODING, "pampa": "sparse"}, size.more)
    for side in size.sample:
        for name, options in ABLATIONS.items():
            add(f"{name}-{side}", side, options, size.more)
    for name, options in SLOW.items():
        for side in (*size.sides, *THINNEST["prototype"]) if name in SLOW_EVERYWHERE else size.sample:
            add(f"{name}-{side}", side, options, size.more, channel="csma")
    found |= _beyond(size)
    return {name: one for name, one in found.items() if not size.only or name in size.only}


ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "blind": {"system": "blind-flooding"},
    "ungrouped": {"grouping": False},
    "rfc": {"aodv": "rfc3561"},
    "expiry": {"route_expiry": True},
    "retry": {"rreq_retry": "on"},
    "pace-rreq": {"pace_mode": "rreq"},
    "pace-adaptive": {"pace_mode": "adaptive"},
    "pace-half": {"pace_seconds": 0.5},
    "copies-2": {"n_copies": 2},
    "copies-4": {"n_copies": 4},
    **{f"dbc-{dbc}-ttl-{ttl}": {"dbc": dbc, "q_ttl": ttl} for dbc in (1, 2) for ttl in (1, 2, 3)},
}
SLOW: Mapping[str, Mapping[str, Any]] = {
    "csma": PROPOSED,
    "csma-flooding": FLOODING,
    "csma-retry": {"rreq_retry": "on"},
    "csma-adaptive": {"pace_mode": "adaptive"},
}
SLOW_EVERYWHERE = ("csma", "csma-flooding")
"""Those of the above that are run on all sides."""

SPEEDS = (0.0, 1.0, 5.0, 15.0)
FAILURES = (0.0, 0.1, 0.3)
CROWDS = (100, 1_000, 5_000)
FAR_FROM = 1_000
"""Larger networks than this are wider than the 30 hops that requests, packets and groups go by default."""
FAR = {"diameter": 120, "group_hops": 120}
AWAKE = (1.0, 0.5, 0.2)


def _beyond(size: Size) -> dict[str, Variant]:
    """What the paper does not have: an area of 1,100 m, or its density, and fewer publications."""
    short, small = (SHORT, SMALL) if size.workload == DAY else (size.workload, size.workload)
    found: dict[str, Variant] = {}

    def add(name: str, options: Mapping[str, Any], **more: Any) -> None:
        given: dict[str, Any] = {"side_metres": 1100, "connected": True, "workload": short, **more}
        found[name] = Run(options=options, **given), size.more

    for speed in SPEEDS:
        add(f"speed-{speed:g}", PROPOSED, speed=speed)
        add(f"speed-{speed:g}-repair", MOVING, speed=speed)
        add(f"speed-{speed:g}-flooding", FLOODING, speed=speed)
    for share in FAILURES:
        add(f"failed-{share:g}", PROPOSED, failed_share=share)
        add(f"failed-{share:g}-repair", REPAIRING, failed_share=share)
        add(f"failed-{share:g}-flooding", FLOODING, failed_share=share)
    for count in CROWDS if size.workload == DAY else CROWDS[:1]:
        side = 1100 * (count / 100) ** 0.5
        crowd = {"nodes": count, "side_metres": side, "connected": False, "workload": small}
        add(f"nodes-{count}", PROPOSED, **crowd)
        add(f"nodes-{count}-flooding", FLOODING, **crowd)
        if count > FAR_FROM:
            add(f"nodes-{count}-far", FAR, **crowd)
    for name, options in (("proposed", PROPOSED), ("flooding", FLOODING), ("everywhere", EVERYWHERE)):
        add(f"energy-{name}", options, power=LISTENING)
        add(f"battery-{name}", options, power=WOKEN, battery_joules=BATTERY_JOULES[WOKEN])
    for share in AWAKE:
        add(f"awake-{share:g}", PROPOSED, power=LISTENING, awake_share=share)
    add("battery-listening", PROPOSED, power=LISTENING, battery_joules=BATTERY_JOULES[LISTENING])
    for end, options in (("", PROPOSED), ("-repair", REPAIRING), ("-flooding", FLOODING)):
        add(f"uneven{end}", options, power=WOKEN, battery_joules=UNEVEN_JOULES, battery_spread=UNEVEN_SPREAD)
    many = msgspec.structs.replace(short, each=3)
    for name, covering in (("off", False), ("on", True)):
        add(f"covering-{name}", {"covering": covering}, workload=many)
    return found


LISTENING, WOKEN = "cc2420-listening", "cc2420"
BATTERY_JOULES = {LISTENING: 700.0, WOKEN: 16.0}
"""Small on purpose: used up after three and a half of the five hours."""
UNEVEN_JOULES, UNEVEN_SPREAD = 24.0, 0.5
"""From 12 to 36 J: about half of the nodes die, one after another."""


JUDGED = ("proposed", "flooding", "everywhere", "ungrouped")


def studies(size: Size) -> dict[str, tuple[str, int]]:
    """Every run with its seed: the name of the study, its variant and seed.

    What the claims are judged by comes first, and of all others the first seeds do.
    """
    known = variants(size)
    most = max(seeds for _, seeds in known.values())
    runs = [(name, seed) for seed in range(1, most + 1) for name, (_, seeds) in known.items() if seed <= seeds]
    runs.sort(key=lambda run: run[0].split("-")[0] not in JUDGED)
    return {f"{name}-s{seed}": (name, seed) for name, seed in runs}


def perform(size: Size, variant: str, seed: int) -> Numbers:
    return measure_run(msgspec.structs.replace(variants(size)[variant][0], seed=seed))


def sides_of(profile: str, sides: Sequence[int] = DENSE) -> tuple[int, ...]:
    return (*sides, *THINNEST[profile])
