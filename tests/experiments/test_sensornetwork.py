"""The sensor-network experiment: its workload is the paper's, its files fit together, a small run counts right."""

import math

import pytest

from experiments.base import Results, load
from experiments.expected import judge
from experiments.sensornetwork.measure import measure, samples, slope, stand_in
from experiments.sensornetwork.plan import FULL, QUICK, sides_of, studies, variants
from experiments.sensornetwork.tables import tables
from experiments.sensornetwork.workload import Workload, draw_interests, draw_publications, interest_in_publications
from experiments.sensornetwork.world import Run, measure_run
from recado.filters.evaluate import matches

SMALL = Workload(subscriptions=10, publications=12, announce_seconds=120.0, publish_seconds=600.0)


def test_the_scenario_is_the_papers():
    workload = Workload()
    assert workload.seconds == 87_120.0
    interests, publications = draw_interests(workload, 100, 1), draw_publications(workload, 100, 1)
    assert len({one.node for one in interests}) == 50
    assert all(0 <= one.time <= 600 for one in interests)
    assert len(publications) == 1440
    assert all(660 <= one.time <= 87_060 for one in publications)
    assert all(1 <= start <= 6 for one in interests for start in one.starts)
    assert all(1 <= value <= 9 for one in publications for value in one.values)
    runs = variants(FULL)
    assert sum(1 for name in runs if name.startswith("proposed-")) == 8
    assert all(seeds == 20 for name, (_, seeds) in runs.items() if name.startswith(("proposed-", "flooding-")))


def test_what_is_due_is_what_the_filters_say():
    interests, publications = draw_interests(SMALL, 30, 7), draw_publications(Workload(), 30, 7)
    for one in interests:
        filter = one.subscription().filter
        assert all(one.wants(some.values) == matches(filter, some.event()) for some in publications[:300])


def test_interest_has_the_shape_that_follows_from_zipf():
    shares = sorted(interest_in_publications(4_000).values(), reverse=True)
    assert len(shares) == 6561
    assert math.isclose(math.fsum(shares) / 6561, (4 / 9) ** 4, rel_tol=0.05)
    assert abs(shares[0] - 0.523) < 0.03


@pytest.mark.parametrize("system", ["proposed", "publication-flooding", "subscription-flooding", "blind-flooding"])
def test_a_small_dense_field_is_served(system):
    run = Run(side_metres=400, nodes=30, connected=True, workload=SMALL, options={"system": system}, seed=3)
    found = measure_run(run)
    assert found["spurious"] == found["duplicates"] == found["other"] == 0
    assert found["delivery"] >= 0.95
    assert found["total"] == sum(value for name, value in found.items() if name.startswith("class."))
    assert measure_run(run) == found
    if system == "subscription-flooding":
        assert found["items.mean"] >= 9.5
    if system == "publication-flooding":
        assert found["items.mean"] == 0


def test_beyond_the_paper():
    base = {"side_metres": 500, "nodes": 30, "connected": True, "workload": SMALL, "seed": 2}
    napping = measure_run(Run(**base, power="cc2420-listening", awake_share=0.5))
    awake = measure_run(Run(**base, power="cc2420-listening"))
    assert 0.45 < napping["joules.mean"] / awake["joules.mean"] < 0.55
    failing = measure_run(Run(**base, failed_share=0.3))
    assert failing["spurious"] == failing["duplicates"] == 0
    moving = measure_run(Run(**base, speed=5.0, options={"repair": "local", "rreq_retry": "on"}))
    assert moving["spurious"] == moving["duplicates"] == 0


def test_who_hears_most_dies_first():
    run = Run(side_metres=900, nodes=40, connected=True, workload=SMALL, seed=2, power="cc2420", battery_joules=0.6)
    dead = measure_run(run)
    assert dead["dead"] == 40
    assert 0 < dead["dead.first_hours"] < dead["dead.half_hours"] < SMALL.seconds / 3600
    assert dead["dead.apart_minutes"] > 0
    assert dead["dead.first_heard"] > 1.1
    assert dead["dead.first_neighbours"] > 1.1


def answers(name: str, value: float) -> dict[str, float]:
    """Made up: all that the tables ask for."""
    return dict.fromkeys(("total", "pampa", "aodv", "data", "reach", "delivery", "latency", "latency.broadcast"), value)


def test_numbers_are_means_and_what_was_not_run_is_not_there():
    known = studies(FULL)
    found = {
        name: answers(name, 2.0 if name.endswith("s1") else 4.0) for name in known if name.startswith("proposed-500")
    }
    results = Results({}, found, quick=False)
    numbers = measure(results)
    assert len(samples(results)["proposed-500"]["total"]) == 20
    assert numbers["proposed-500.total"] == pytest.approx(3.9)
    assert "crossover" not in numbers
    assert "blocks.most" not in numbers
    assert any(title.startswith("Figure 4") for title, _ in tables(results))


def test_shares_of_protocols_are_told_both_ways():
    """Hops of groups are AODV's, or not (13-A25)."""
    layers = {"total": 20.0, "pampa": 4.0, "pcache": 2.0, "aodv": 8.0, "data": 6.0}
    layers |= {"class.data.single": 5.0, "class.data.group": 1.0}
    results = Results({}, {"proposed-500-s1": layers}, quick=False)
    (shares,) = [table for title, table in tables(results) if "shares" in title]
    assert shares.rows == (("500", "20.0%", "10.0%", "65.0%", "5.0%", "70.0%"),)


def test_claims_are_judged_for_every_seed_by_itself():
    """Both systems on two sides; only in the second run does the proposed one fall."""
    totals = {"proposed-500": (50.0, 60.0), "proposed-1500": (52.0, 40.0)}
    totals |= {"flooding-500": (20.0, 20.0), "flooding-1500": (70.0, 90.0)}
    given = {
        f"{variant}-s{seed}": {"total": value, "pampa": 1.0, "aodv": 1.0}
        for variant, values in totals.items()
        for seed, value in enumerate(values, 1)
    }
    title, table = tables(Results({}, given, quick=False))[0]
    assert "claims" in title
    rows = {row[0]: row for row in table.rows}
    assert rows["C1"][1:5] == (
        "reproduced",
        "slope of the proposed system, transmissions a metre",
        rows["C1"][3],
        "1 of 2",
    )
    assert rows["C1"][3].startswith("-0.009 ± ")
    assert rows["C3"][1] == "partly"
    assert "Queries are two hops deep" in rows["C3"][5]
    assert "C11" not in rows  # nothing of it was run


def test_the_same_claims_are_judged_of_the_other_profile_and_channel():
    """Flooding and the proposed system on two sides: with `sparse` both fall, with collisions one rises."""
    totals = {"sparse-500": 50.0, "sparse-1500": 40.0, "sparse-flooding-500": 20.0, "sparse-flooding-1500": 10.0}
    totals |= {"csma-500": 90.0, "csma-1500": 50.0, "csma-flooding-500": 70.0, "csma-flooding-1500": 95.0}
    totals |= {"sparse-1750": 30.0, "sparse-2000": 20.0, "csma-2000": 30.0, "csma-2250": 20.0}
    given = {f"{variant}-s1": {"total": value, "pampa": 1.0, "aodv": 1.0} for variant, value in totals.items()}
    ((_, table),) = [one for one in tables(Results({}, given, quick=False)) if "other profile" in one[0]]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["C1"][0] == "not measured"
    assert rows["C1"][1].startswith("differs; slope of publication flooding: -0.01")
    assert rows["C1"][2] == "holds"
    assert "C10" not in rows
    sparse = measure(stand_in(Results({}, given, quick=False), "sparse", "sparse-flooding", sides_of("sparse")))
    assert sparse["proposed-2000.total"] == 30.0  # its two thinnest sides stand for those of the other profile
    assert sparse["proposed-2250.total"] == 20.0


def test_what_grouping_explains_is_told_with_data_and_without():
    layers = {"proposed-500": (10.0, 1.0), "proposed-1500": (6.0, 3.0)}
    layers |= {"ungrouped-500": (10.0, 1.0), "ungrouped-1500": (8.0, 2.0)}
    given = {f"{name}-s1": {"aodv": aodv, "data": data} for name, (aodv, data) in layers.items()}
    ((_, table),) = [one for one in tables(Results({}, given, quick=False)) if one[0].startswith("C10")]
    assert [row[1] for row in table.rows] == ["0.5", "0.5"]


def test_batteries_that_are_not_alike():
    base = {"side_metres": 600, "nodes": 40, "connected": True, "workload": SMALL, "seed": 2, "power": "cc2420"}
    alike, uneven = (measure_run(Run(**base, battery_joules=0.9, battery_spread=spread)) for spread in (0.0, 0.5))
    assert uneven["dead.first_hours"] < alike["dead.first_hours"]
    assert 0 < uneven["dead"] < 40
    assert uneven["spurious"] == uneven["duplicates"] == 0


def test_every_check_names_something_that_a_whole_run_measures():
    """With every study answered, nothing is left unjudged."""
    columns = ("total", "pampa", "aodv", "data", "reach", "delivery", "latency", "latency.broadcast", "items.mean")
    columns = (*columns, "items.all", "grouped.copies", "per_delivery", "spurious", "duplicates")
    some = {**dict.fromkeys(columns, 1.0), **{f"block.{n}": 1.0 for n in range(1, 7)}}
    given = {name: {**some, "aodv": 9.0 if "-500-" in name else 1.0} for name in studies(FULL)}
    numbers = measure(Results({}, given, quick=False))
    expected = load("sensor-network").expected()
    assert {judge(line, numbers).verdict for line in expected.lines} <= {"holds", "differs"}


def test_a_slope():
    assert slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) == 2.0


def test_quick_runs_are_some_of_the_whole():
    assert set(variants(QUICK)) <= set(variants(FULL))
