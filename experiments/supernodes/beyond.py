"""What lies beyond the super-node document, each measured against the plain protocol.

Every study runs both sides in the simulator with the same peers, the same seed and the same network, and gives one row
a side: a dict of figures. ``STUDIES`` has them by the name of the setting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import msgspec

from experiments.supernodes.peers import Peers, Population
from experiments.supernodes.stints import Numbers
from recado.protocols.machine import Effect, NodeId, Rng, Send, SetTimer, Started, Stimulus, TimerFired
from recado.protocols.pubsub import Leave, Left, Missed
from recado.protocols.supernodes.messages import FilterCheck
from recado.protocols.supernodes.settings import SuperNodeSettings
from recado.sim.draws import uniform
from recado.sim.kernel import Simulation, stream
from recado.sim.network import Mesh

Row = dict[str, Any]

QUICK = SuperNodeSettings(
    download_start_seconds=2.0,
    filter_pieces=0,
    serving="always",
    join_batch_seconds=10.0,
    leave_batch_seconds=10.0,
    repair_seconds=15.0,
    repair_least_seconds=5.0,
    repair_most_seconds=30.0,
)
"""The document's families and events over a layer that settles quickly."""

NEVER = float("inf")

LABELS = ("setting", "filters", "redundancy", "family", "families", "event_repair")
"""The columns of a row that say what was run; the others are what came out."""


def flatten(rows: Sequence[Row]) -> Numbers:
    """The figures of a study by name: the labels of their row, and their column."""
    found: Numbers = {}
    for row in rows:
        labels = "; ".join(f"{name} {row[name]}" if name != "setting" else row[name] for name in LABELS if name in row)
        found |= {f"{labels} | {name}": value for name, value in row.items() if name not in LABELS}
    return found


def replace(settings: SuperNodeSettings, **changes: Any) -> SuperNodeSettings:
    return msgspec.structs.replace(settings, **changes)


def settle_peers(peers: Peers, filters: Sequence[int], gap_seconds: float = 1.0, rest_seconds: float = 90.0) -> None:
    """Let one peer arrive for each of these filters, to stay."""
    for number in filters:
        peers.arrive(NEVER, number)
        peers.run(gap_seconds)
    peers.run(rest_seconds)


def wanted(peers: Peers, number: int) -> list[int]:
    """The live peers that have this filter of a population of integers."""
    return [record.node for record in peers.live.values() if record.filter == number]


def count_bytes(simulation: Simulation) -> int:
    return sum(one.bytes for one in simulation.sent.values())


# --- Leaving in good order -------------------------------------------------------------------------------------------


def study_leaving(seed: int = 0, families: int = 8, size: int = 6, wait_seconds: float = 100.0) -> list[Row]:
    """Super nodes leave one by one, silently or in good order, while every family is sent an event a second.

    ``gap_seconds``: the mean time in which no child of the family got anything.
    """
    rows = []
    for graceful in (False, True):
        settings = replace(QUICK, graceful=graceful, event_repair=False)
        peers = Peers(Population(rate=1.0, session_seconds=families * 10.0), settings, seed)
        gone: list[NodeId] = []

        def report(now: float, node: NodeId, fact: Any, peers: Peers = peers, gone: list[NodeId] = gone) -> None:
            if type(fact) is Left:
                gone.append(node)
                peers.simulation.at(now, lambda: peers.leave(int(str(node))))

        peers.watch_fact = report
        settle_peers(peers, [*range(families), *(number for number in range(families) for _ in range(size - 1))])
        before = count_bytes(peers.simulation)
        expected = missed = 0
        silences = []
        for number in range(families):
            father, *children = wanted(peers, number)
            publisher = next(node for node in peers.live if peers.live[node].filter != number)
            peers.simulation.ask(father, Leave())
            begun, published = peers.simulation.now, []
            for _ in range(round(wait_seconds)):
                published.append(peers.publish(publisher, number).id)
                peers.run(1.0)
            peers.run(5.0)
            for child in children:
                got = [time for time, node, event in peers.deliveries if node == child and time >= begun]
                expected += len(published)
                missed += len(published) - len(got)
                silences.append(max(two - one for one, two in pairwise([begun, *got])))
        rows.append(
            {
                "setting": "graceful" if graceful else "plain",
                "families": families,
                "missed_share": missed / expected,
                "gap_seconds": sum(silences) / len(silences),
                "bytes": count_bytes(peers.simulation) - before,
                "left": len(gone),
            }
        )
    return rows


# --- Order and completeness ------------------------------------------------------------------------------------------


def study_order(seed: int = 0, count: int = 120, events: int = 120, deaths: int = 40) -> list[Row]:
    """Peers with nested thresholds; a few of them publish often, and others die without a word meanwhile.

    ``known_share``: of the events that a live peer wanted and did not get, those that a gap told it of.
    """
    rows = []
    for ordered, repair in ((False, True), (True, True), (False, False), (True, False)):
        settings = replace(QUICK, ordered=ordered, event_repair=repair)
        peers = Peers(Population(rate=1.0, session_seconds=50.0, filters="nested"), settings, seed)
        gaps: list[tuple[NodeId, Missed]] = []

        def see(now: float, node: NodeId, fact: Any, gaps: list[tuple[NodeId, Missed]] = gaps) -> None:
            if type(fact) is Missed:
                gaps.append((node, fact))

        peers.watch_fact = see
        rng = stream(seed, "order")
        filters = peers.population.filter_count
        settle_peers(peers, [rng.randrange(filters) for _ in range(count)])
        before = count_bytes(peers.simulation)
        publishers = list(peers.live)[:6]
        published: dict[str, tuple[float, int, int, float]] = {}
        numbers = dict.fromkeys(publishers, 0)
        victims = [node for node in peers.live if node not in publishers]
        for turn in range(events):
            publisher = publishers[rng.randrange(len(publishers))]
            value = rng.random() * filters
            numbers[publisher] += 1
            event = peers.publish(publisher, value)
            published[event.id] = peers.simulation.now, publisher, numbers[publisher], value
            if turn % (events // deaths) == 0:
                peers.leave(victims.pop(rng.randrange(len(victims))))
            peers.run(0.5)
        peers.run(120.0)
        for publisher in publishers:  # one more for everybody: what was lost before it can be noticed now
            numbers[publisher] += 1
            event = peers.publish(publisher, 0.0)
            published[event.id] = peers.simulation.now, publisher, numbers[publisher], 0.0
        peers.run(60.0)
        got: dict[int, list[str]] = {node: [] for node in peers.live}
        delays = []
        for time, node, id in peers.deliveries:
            if node in got:
                got[node].append(id)
                delays.append(time - published[id][0])
        swaps = lacking = known = expected = 0
        for node, ids in got.items():
            highest: dict[int, int] = {}
            for id in ids:
                _, publisher, number, _ = published[id]
                swaps += number < highest.get(publisher, 0)
                highest[publisher] = max(number, highest.get(publisher, 0))
            want = [id for id, one in published.items() if one[3] < peers.live[node].filter + 1]
            expected += len(want)
            for id in set(want) - set(ids):
                _, publisher, number, _ = published[id]
                source = peers.machine(publisher).state.source
                lacking += 1
                known += any(
                    who == node and gap.publisher == source and gap.after < number <= gap.upto for who, gap in gaps
                )
        rows.append(
            {
                "setting": "ordered" if ordered else "plain",
                "event_repair": repair,
                "expected": expected,
                "delivered_share": 1 - lacking / expected,
                "out_of_order": swaps,
                "missed": lacking,
                "known_share": known / lacking if lacking else 1.0,
                "mean_delay_seconds": sum(delays) / len(delays),
                "bytes": count_bytes(peers.simulation) - before,
            }
        )
    return rows


# --- Large families --------------------------------------------------------------------------------------------------


def study_large(seed: int = 0, sizes: Sequence[int] = (100, 400), most: int = 16, rate: float = 20.0) -> list[Row]:
    """Families of equal subscriptions, as one list or as a tree: an event's way, and what a node pays for keep-alives.

    A list of more than a few hundred does not work at all: one round takes longer than the watchdogs wait.
    """
    rows = []
    for size in sizes:
        for limit in (0, most):
            settings = replace(QUICK, family_most=limit, event_repair=False)
            peers = Peers(Population(rate=1.0, session_seconds=10.0), settings, seed)
            settle_peers(peers, [0, 1], 20.0, 20.0)
            settle_peers(peers, [1] * size, 1 / rate, 120.0)
            nodes = {node: peers.simulation.nodes[node] for node in peers.live}
            before = {node: one.up_bytes for node, one in nodes.items()}
            peers.run(90.0)
            paid = [(nodes[node].up_bytes - before[node]) / 90.0 for node in nodes if peers.live[node].role == "sub"]
            begun = peers.simulation.now
            event = peers.publish(0, 1.0)
            peers.run(120.0)
            times = [time - begun for time, _, id in peers.deliveries if id == event.id]
            rows.append(
                {
                    "setting": "large" if limit else "plain",
                    "family": size,
                    "super_nodes": sum(1 for record in peers.live.values() if record.role == "super"),
                    "reached_share": len(times) / (size + 1),
                    "mean_delay_seconds": sum(times) / max(1, len(times)),
                    "last_delay_seconds": max(times, default=0.0),
                    "keepalive_bytes_per_second": sum(paid) / max(1, len(paid)),
                    "keepalive_most_bytes_per_second": max(paid, default=0.0),
                }
            )
    return rows


# --- Attachment by covering ------------------------------------------------------------------------------------------


def study_covering(
    seed: int = 0, count: int = 120, redundancies: Sequence[float] = (0.2, 0.5, 0.8), seconds: float = 600.0
) -> list[Row]:
    """Unrelated filters (no overlap), thresholds that nest (full overlap) and half of each, while peers come and go.

    It pays where it keeps peers out of the layer: with overlap, and the more the fewer filters are equal.
    """
    rows = []
    kinds: tuple[Literal["integer", "mixed", "nested"], ...] = ("integer", "mixed", "nested")
    for kind in kinds:
        for redundancy in redundancies:
            for covering in (False, True):
                settings = replace(QUICK, covering=covering, family_most=16)
                population = Population(
                    rate=count / 600.0,
                    redundancy=redundancy,
                    session_seconds=600.0,
                    session_most_seconds=1200.0,
                    filters=kind,
                )
                peers = Peers(population, settings, seed)
                peers.arrivals(600.0 + seconds)
                peers.run(600.0)
                before = count_bytes(peers.simulation)
                peers.publications(10.0, seconds - 60.0)
                peers.run(seconds)
                live = list(peers.live.values())
                rows.append(
                    {
                        "setting": "covering" if covering else "plain",
                        "filters": kind,
                        "redundancy": redundancy,
                        "live": len(live),
                        "super_share": sum(1 for one in live if one.role == "super") / len(live),
                        "bytes_per_peer_and_second": (count_bytes(peers.simulation) - before) / seconds / len(live),
                        "deliveries": len(peers.deliveries),
                    }
                )
    return rows


# --- Load ------------------------------------------------------------------------------------------------------------


def churning(settings: SuperNodeSettings, seed: int, count: int, redundancy: float) -> Peers:
    """Peers that stay ten minutes on average, in balance."""
    population = Population(
        rate=count / 600.0,
        redundancy=redundancy,
        session_seconds=600.0,
        session_most_seconds=1200.0,
        filters="accept_all",
    )
    peers = Peers(population, settings, seed)
    peers.arrivals(math.inf)
    peers.run(900.0)
    return peers


def upload_by_role(peers: Peers, seconds: float) -> dict[str, list[float]]:
    """Bytes a second of every peer that keeps its role over the next ``seconds``."""
    begun = peers.simulation.now
    nodes = peers.simulation.nodes
    before = {node: nodes[node].up_bytes for node in peers.live}
    peers.run(seconds)
    found: dict[str, list[float]] = {"super": [], "sub": []}
    for node, one in peers.live.items():
        if node in before and one.role in found and one.roles[-1][0] <= begun:
            found[one.role].append((nodes[node].up_bytes - before[node]) / seconds)
    return found


def study_fair(seed: int = 0, count: int = 200, redundancy: float = 0.8, seconds: float = 300.0) -> list[Row]:
    """What super nodes and sub nodes upload when children send for their fathers, with an event every two seconds."""
    rows = []
    for fair in (False, True):
        peers = churning(replace(QUICK, fair=fair), seed, count, redundancy)
        peers.publications(2.0, seconds)
        paid = upload_by_role(peers, seconds)
        means = {role: sum(all_of) / max(1, len(all_of)) for role, all_of in paid.items()}
        rows.append(
            {
                "setting": "fair" if fair else "plain",
                "super_bytes_per_second": means["super"],
                "sub_bytes_per_second": means["sub"],
                "ratio": means["super"] / means["sub"],
                "most_bytes_per_second": max(paid["super"] + paid["sub"]),
                "deliveries": len(peers.deliveries),
            }
        )
    return rows


def study_limit(
    seed: int = 0, count: int = 200, redundancy: float = 0.8, most: float = 60.0, seconds: float = 600.0
) -> list[Row]:
    """A sizer has made more super nodes than there are filters; then every node has a maximum of upload."""
    rows = []
    for limit in (0.0, most):
        settings = replace(QUICK, budget_bytes_per_second=500.0, sizer_seconds=60.0, max_upload_bytes_per_second=limit)
        peers = churning(settings, seed, count, redundancy)
        begun = count_bytes(peers.simulation)
        paid = upload_by_role(peers, seconds)
        members = sum(1 for one in peers.live.values() if one.role == "super")
        every = paid["super"] + paid["sub"]
        rows.append(
            {
                "setting": "limit" if limit else "plain",
                "limit_bytes_per_second": limit,
                "live": len(peers.live),
                "super_nodes": members,
                "filters_there": len({one.filter for one in peers.live.values()}),
                "super_bytes_per_second": sum(paid["super"]) / max(1, len(paid["super"])),
                "sub_bytes_per_second": sum(paid["sub"]) / max(1, len(paid["sub"])),
                "most_bytes_per_second": max(paid["super"] + paid["sub"]),
                "above_limit_share": sum(one > most for one in every) / len(every),
                "bytes_per_peer_and_second": (count_bytes(peers.simulation) - begun) / seconds / len(peers.live),
            }
        )
    return rows


# --- Hostile peers ---------------------------------------------------------------------------------------------------


class Flooder:
    """A machine that sends a question to one peer, so many times a second."""

    def __init__(self, victim: NodeId, rate: int) -> None:
        self.victim, self.rate = victim, rate

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        if not isinstance(stimulus, Started | TimerFired):
            return ()
        questions = [Send(self.victim, FilterCheck("f == 1"), "a flood") for _ in range(self.rate)]
        return [*questions, SetTimer("tick", 1.0)]

    def inspect(self) -> dict[str, Any]:
        return {}


def study_guard(seed: int = 0, count: int = 60, rate: int = 500, seconds: float = 120.0) -> list[Row]:
    """One peer floods a super node with questions: what the victim uploads, and what the others get of its events."""
    rows = []
    for guard in (False, True):
        network = Mesh(uniform(0.1, 0.3, stream(seed, "delays")))
        peers = Peers(Population(rate=1.0, session_seconds=50.0), replace(QUICK, guard=guard), seed, network=network)
        rng = stream(seed, "guard")
        filters = peers.population.filter_count
        settle_peers(peers, [rng.randrange(filters) for _ in range(count)])
        victim = peers.supers.nodes[0]
        begun, node = peers.simulation.now, peers.simulation.nodes[victim]
        before = node.up_bytes
        peers.simulation.add("flooder", Flooder(victim, rate))
        peers.publications(2.0, seconds)
        peers.run(seconds)
        rows.append(
            {
                "setting": "guard" if guard else "plain",
                "flood_messages_per_second": rate,
                "victim_bytes_per_second": (node.up_bytes - before) / seconds,
                "deliveries": sum(1 for time, _, _ in peers.deliveries if time >= begun),
            }
        )
    return rows


STUDIES: Mapping[str, Callable[..., list[Row]]] = {
    "graceful": study_leaving,
    "ordered": study_order,
    "family_most": study_large,
    "covering": study_covering,
    "fair": study_fair,
    "max_upload_bytes_per_second": study_limit,
    "guard": study_guard,
}
