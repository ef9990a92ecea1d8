"""The experiment on super nodes: tiny sizes of every run, the report, and what is made of numbers."""

import math

import pytest
from msgspec.structs import replace

from experiments.base import Results, load
from experiments.expected import ExperimentError, judge
from experiments.report import write_report
from experiments.supernodes import experiment as experiment_of_peers
from experiments.supernodes.deliveries import Deliveries
from experiments.supernodes.measure import measure, measure_large
from experiments.supernodes.peers import PeerRecord, Peers, Population
from experiments.supernodes.plan import DEFAULT, FULL, MIDDLE, QUICK, studies, variants
from experiments.supernodes.stints import LAYER, SUB, Stints
from experiments.supernodes.world import Entries, Run, failing_peers, measure_run
from recado.protocols.supernodes import SuperNodeSettings
from recado.protocols.supernodes.messages import RoleChanged


@pytest.fixture(scope="module")
def results():
    experiment = load("super-nodes")
    return Results({}, {name: study(True) for name, study in experiment.studies.items()}, True)


def test_what_a_quick_run_can_tell_holds(results):
    experiment = load("super-nodes")
    expected, measured = experiment.expected(), experiment.measure(results)
    judged = [judge(line, measured, True, expected.columns) for line in expected.lines]
    assert [one.line.id for one in judged if one.verdict == "differs"] == []
    assert [one.line.id for one in judged if one.verdict == "holds"] == ["C13", "T10"]


def test_the_report_has_every_table_and_figure(results, tmp_path):
    written = write_report(load("super-nodes"), results, tmp_path)
    assert written.surprises == []
    text = (tmp_path / "report.md").read_text()
    for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12):
        assert f"5.{number}" in text
    for figure in load("super-nodes").figures:
        if figure.name == "sizer":
            continue  # it has a point an hour
        assert (tmp_path / f"{figure.name}.svg").stat().st_size > 1_000, figure.name


@pytest.mark.parametrize(
    ("size", "beyond_it"),
    [
        ("", ["5.7-base", "5.7-1", "5.7-2", "5.7-3", "5.7-4", "T1-lambda", "T2"]),
        ("middle", []),
        ("full", []),
    ],
)
def test_every_line_names_something_that_is_measured(size, beyond_it):
    """A typing error in the name of a measurement would be "not measured" for ever."""
    experiment = load("super-nodes", size)
    answers = dict.fromkeys(_METRICS, 1.0)
    answers |= {f"layer.{way}.bin.{hour}": 1.0 for way in ("up", "down") for hour in range(8)}
    answers |= {f"cause.{name}.rate": 1.0 for name in ("joins", "leaves", "endpoints", "filters", "keep-alive")}
    measured = experiment.measure(Results({}, dict.fromkeys(experiment.studies, answers), False))
    expected = experiment.expected()
    judged = [judge(line, measured, False, expected.columns, full=experiment.full) for line in expected.lines]
    assert [one.line.id for one in judged if one.verdict == "not measured"] == beyond_it


_METRICS = (
    "layer.up.rate", "layer.down.rate", "layer.hours", "sub.up.rate", "sub.down.rate", "share.super", "share.children",
    "share.k", "share.k_per_active", "entries.share", "entries.rate", "entries.concurrent", "entries.budget.share",
    "activations.share", "takeovers.seconds", "takeovers.standby", "delivered.all", "delivered.super", "delivered.sub",
    "latency", "stale_seconds", "false_positives", "violations", "budget",
    "brothers.known", "family.keep-alive.rate", "family.brothers.rate",
)  # fmt: skip


@pytest.mark.parametrize(
    ("line", "right", "wrong"),
    [
        ("C8", 0.9, 2.0),
        ("C10", None, 0.9),
        ("T3", None, 0.1),
        ("C13", 0, 1),
        ("T9-stale", 5, 0),
    ],
)
def test_verdicts_follow_the_numbers(line, right, wrong):
    expected = load("super-nodes").expected()
    claim = next(one for one in expected.claims if one.id == line)
    middle = {
        check.measure: right if right is not None else (check.at_least + check.at_most) / 2 for check in claim.checks
    }
    middle |= {name: 1.0 for name in middle if name == "sub.balance"}
    assert judge(claim, middle).verdict == "holds"
    for check in claim.checks:
        assert judge(claim, {**middle, check.measure: wrong}).verdict == "differs"
    assert judge(claim, {}).verdict == "not measured"


def test_what_only_the_full_size_can_tell_is_not_judged_in_others():
    claim = next(one for one in load("super-nodes").expected().claims if one.id == "T1-lambda")
    measured = {"entries.difference": 0.01}
    assert judge(claim, measured).verdict == "not measured"
    assert judge(claim, measured, full=True).verdict == "holds"


def test_larger_runs_are_those_of_the_middle_size(monkeypatch):
    monkeypatch.setattr(experiment_of_peers, "perform", lambda size, variant, seed: {"is": (size, variant, seed)})
    studies_of = load("super-nodes").studies
    assert studies_of["large k2-s1"](False) == {"is": (MIDDLE, "k2", 1)}
    assert studies_of["large k2-s1"](True) == {}
    assert not [name for name in load("super-nodes", "middle").studies if name.startswith("large")]


def test_costs_are_judged_by_larger_runs():
    """Those of a usual evaluation are apart from its own; what must not happen is counted in both."""
    small, large = {"layer.up.rate": 50.0, "violations": 1}, {"layer.up.rate": 100.0, "violations": 2}
    usual = {"base-1.4-s1": small, "super-1.4-0.8-s1": {"layer.up.rate": 30.0}}
    larger = {"large base-1.4-s1": large, "large super-1.4-0.8-s1": {"layer.up.rate": 43.0}}
    numbers = measure(Results({}, usual | larger, False))
    assert (numbers["cost.up.0.8"], numbers["large.cost.up.0.8"]) == pytest.approx((0.6, 0.43))
    assert numbers["violations"] == 3
    numbers = measure(Results({}, usual, False))
    assert "large.cost.up.0.8" not in numbers
    assert numbers["violations"] == 1
    assert measure_large(Results({}, usual, False))["large.cost.up.0.8"] == pytest.approx(0.6)


def test_figures_of_costs_show_larger_runs(tmp_path):
    bins = {f"layer.{way}.bin.{hour}": 1.0 + hour for way in ("up", "down") for hour in range(3)}
    figure = next(one for one in load("super-nodes").figures if one.name == "figure-5-10")
    for number, study in enumerate(("sizer-increment-s1", "large sizer-increment-s1")):
        figure.draw(Results({}, {study: bins}, False), tmp_path / f"{number}.svg")
    both = {"sizer-increment-s1": {}, "large sizer-increment-s1": bins}
    figure.draw(Results({}, both, False), tmp_path / "both.svg")
    with pytest.raises(ExperimentError, match="nothing was run"):
        figure.draw(Results({}, {"sizer-increment-s1": bins, "large k2-s1": {"steps": 1}}, False), tmp_path / "no.svg")


def test_a_row_tells_its_reason_only_while_it_differs():
    expected = load("super-nodes").expected()
    row = next(one for one in expected.rows if one.id == "5.7-2-entries")
    near = {f"k2.{name}": value for name, value in row.published.items()}
    assert judge(row, near, columns=expected.columns).reason == ""
    far = judge(row, {**near, "k2.entries.at_1.4": 0.8}, columns=expected.columns)
    assert (far.verdict, far.reason) == ("differs", row.reason)


def test_other_experiments_have_no_full_size():
    with pytest.raises(ExperimentError, match="mobility has no other size"):
        load("mobility", "full")


# --- the plan --------------------------------------------------------------------------------------------------------


def test_the_full_size_is_the_document_s_own():
    runs = variants(FULL)
    assert runs["super-1.4-0.8"].rate == pytest.approx(1.4)
    assert runs["base-1.05"].rate == pytest.approx(1.05)
    assert runs["events-all"].rate == pytest.approx(0.7)
    assert {(run.hours, run.warm_up_hours, run.session_hours) for run in runs.values()} == {(23, 8, 4)}
    assert runs["sizer-increment"].options == {"budget_bytes_per_second": 120, "leaves": "leader"}
    assert runs["events-all"].options == {}  # where events are published, whoever finds a departure spreads it


def test_every_quick_variant_is_one_of_the_default_size():
    assert set(variants(QUICK)) < set(variants(DEFAULT)) < set(variants(FULL))
    assert len(studies(DEFAULT)) == len(variants(DEFAULT)) + 4  # R 0.6 and 0.8 have a second seed


# --- what is measured ------------------------------------------------------------------------------------------------


def _world(**more):
    return Peers(Population(rate=0.01), SuperNodeSettings(event_repair=False), 1, **more)


def test_a_stint_is_paid_from_its_first_byte_to_its_last():
    peers = _world()
    stints = Stints(peers, 3600)
    record = peers.arrive(math.inf, 0)
    node = peers.simulation.nodes[record.node]
    stints.start_counting()
    node.up_bytes, node.down_bytes = 50, 60
    stints.changed(100.0, record, RoleChanged("sub", ""))
    node.up_bytes, node.down_bytes = 150, 360
    stints.changed(1100.0, record, RoleChanged("k", ""))
    node.up_bytes = 950
    stints.changed(2000.0, record, RoleChanged("super", ""))  # a stand-by takes over: the same stint goes on
    peers.simulation.now = 3100.0
    node.up_bytes = 2150
    stints.leaves(record)
    numbers = stints.numbers()
    assert numbers["sub.up.rate"] == pytest.approx(0.1)
    assert numbers["sub.down.rate"] == pytest.approx(0.3)
    assert numbers["layer.up.rate"] == pytest.approx(1.0)
    assert numbers["layer.hours"] == pytest.approx(2000 / 3600)


def test_short_stints_have_no_rate_and_open_ones_count_in_totals_only():
    peers = _world()
    stints = Stints(peers, 3600)
    records = [peers.arrive(math.inf, number) for number in range(2)]
    stints.start_counting()
    for record in records:
        stints.changed(0.0, record, RoleChanged("super", ""))
        peers.simulation.nodes[record.node].up_bytes = 600
    peers.simulation.now = 300.0
    stints.leaves(records[0])
    stints.finish()
    numbers = stints.numbers()
    assert "layer.up.rate" not in numbers
    assert numbers["layer.up.total"] == pytest.approx(2.0)
    assert len(stints.ended[LAYER]) == 1
    assert stints.ended[SUB] == []


def test_a_first_entry_is_concurrent_if_somebody_has_the_filter():
    entries = Entries(_world())
    entries.counting = True
    one, other, alone = (PeerRecord(node, number, 0.0) for node, number in ((1, 7), (2, 7), (3, 8)))
    entries.changed(0.0, one, RoleChanged("super", "first"))
    entries.changed(0.0, alone, RoleChanged("super", "first"))
    assert (entries.first, entries.concurrent) == (2, 0)
    entries.changed(1.0, other, RoleChanged("super", "first"))
    assert (entries.first, entries.concurrent) == (3, 1)


def test_stand_bys_enter_once_and_take_over_without_an_entry():
    entries = Entries(_world())
    entries.counting = True
    record = PeerRecord(1, 7, 0.0)
    for role, why in (("sub", ""), ("k", "k"), ("super", "promoted")):
        entries.changed(0.0, record, RoleChanged(role, why))
    assert (entries.all, entries.standby, entries.taken_over, entries.promoted) == (1, 1, 1, 0)


def test_missed_and_false_deliveries_are_seen():
    """A listener that is told wrong things counts them as wrong."""
    peers = Peers(Population(rate=0.01, filters="nested"), SuperNodeSettings(event_repair=False), 1)
    for number in (0, 1, 2):
        peers.arrive(math.inf, number)
        peers.run(60)
    peers.run(120)
    events = Deliveries(peers, 30.0)
    told = []
    peers.on_delivery = lambda now, node, notified: told.append((now, node, notified))
    events.publish_until(peers.simulation.now + 1)
    peers.run(30)
    (publication,) = events._open.values()
    assert len(publication.missing) == sum(1 for _, node, _ in told if node != publication.publisher)
    publication.value = 1e9  # as if nobody's filter accepted it
    for now, node, notified in told:
        events.delivered(now, node, notified)
        events.delivered(now, node, notified)
    others = len({node for _, node, _ in told if node != publication.publisher})
    assert events.false_positives == 2 * others
    assert events.duplicates == others


def test_a_lost_delivery_lowers_the_share():
    peers = Peers(Population(rate=0.01, filters="accept_all"), SuperNodeSettings(event_repair=False), 1)
    for number in range(4):
        peers.arrive(math.inf, number)
        peers.run(60)
    peers.run(120)
    events = Deliveries(peers, 30.0)
    lost = []

    def hear(now, node, notified):
        if lost or node == publisher():
            events.delivered(now, node, notified)
        else:
            lost.append(node)

    def publisher():
        return next(iter(events._open.values())).publisher

    peers.on_delivery = hear
    events.publish_until(peers.simulation.now + 1)
    peers.run(700)
    assert len(lost) == 1
    assert events.numbers()["delivered.all"] == pytest.approx(100 * 2 / 3)


def test_the_same_run_gives_the_same_numbers():
    run = Run(rate=0.05, hours=0.4, warm_up_hours=0.2, session_hours=0.2, workload="nested", causes=1.0)
    one, other = measure_run(run), measure_run(run)
    cost = ("processor.minutes", "memory.gigabytes")
    assert {name: one[name] for name in one if name not in cost} == {
        name: other[name] for name in other if name not in cost
    }


def test_causes_can_be_counted_of_some_peers():
    """Nothing else changes, and the means by cause are about the same."""
    all, some = (
        measure_run(Run(rate=0.05, hours=2.0, warm_up_hours=0.5, session_hours=0.5, causes=share))
        for share in (1.0, 0.5)
    )
    for name, value in all.items():
        if not name.startswith(("cause.", "processor.", "memory.")):
            assert some[name] == value
    assert some["cause.joins"] != all["cause.joins"]
    assert some["cause.joins"] == pytest.approx(all["cause.joins"], rel=0.25)


# --- R20: what else could be the published loss ----------------------------------------------------------------------


def test_a_peer_that_is_joining_counts_only_if_it_is_asked_for():
    peers = Peers(Population(rate=0.01, filters="accept_all"), SuperNodeSettings(event_repair=False), 1)
    for number in range(4):
        peers.arrive(math.inf, number)
        peers.run(60)
    peers.run(120)
    events = Deliveries(peers, 30.0)
    peers.on_delivery = events.delivered
    peers.arrive(math.inf, 9)  # it has just come: nobody can have an event for it yet
    events.publish_until(peers.simulation.now + 1)
    peers.run(700)
    numbers = events.numbers()
    assert numbers["delivered.all"] == pytest.approx(100)
    assert numbers["joining"] == pytest.approx(1 / 4)
    assert numbers["delivered.with_joining"] == pytest.approx(100 * 3 / 4)


def _reached(failure_prob, count=60):
    settings = SuperNodeSettings(event_repair=False, families=False, filter_pieces=0, serving="always")
    make = failing_peers(settings, failure_prob)
    peers = Peers(Population(rate=0.01, filters="accept_all"), settings, 1, make=make)
    for number in range(count):
        peers.arrive(math.inf, number)
        peers.run(2)
    peers.run(200)
    event = peers.publish(0, 1.0)
    peers.run(60)
    return {node for _, node, id in peers.deliveries if id == event.id}


def test_a_member_that_fails_takes_its_part_of_the_tree_with_it():
    assert len(_reached(0.0)) == 60
    assert 2 < len(_reached(1.0)) <= 1 + SuperNodeSettings().event_fanout  # the publisher, and those it gave it to
    assert len(_reached(1.0)) < len(_reached(0.2)) < 60


def test_the_failure_of_members_is_a_setting_of_a_run():
    run = Run(rate=0.05, hours=0.75, warm_up_hours=0.35, session_hours=0.25, workload="accept_all", redundancy=0.2)
    whole, failing = (measure_run(replace(run, interior_failure_prob=share)) for share in (0.0, 0.5))
    assert failing["delivered.all"] < whole["delivered.all"] - 5
    assert failing["false_positives"] == 0


def test_brothers_that_ask_know_each_other_and_pay_for_it_apart():
    run = Run(rate=0.05, hours=1.5, warm_up_hours=0.75, session_hours=0.5, redundancy=0.8)
    by_list, by_asking = (measure_run(replace(run, options={"brothers": way})) for way in ("chain", "enquiry"))
    assert by_list["brothers.known"] > 0.98
    assert by_asking["brothers.known"] > 0.98
    assert by_list["family.brothers.rate"] == 0 < by_asking["family.brothers.rate"]
    assert by_asking["family.keep-alive.rate"] < by_list["family.keep-alive.rate"]
