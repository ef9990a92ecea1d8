"""The log analyser on Spark against a plain one."""

import json
from random import Random

import pytest

from experiments.semantics.grid import Counts, macro, micro
from experiments.semantics.log_analysis import counts, quality, read_lists, read_log, speed
from experiments.semantics.server import Record
from experiments.semantics.speed import rate_and_time

SUBSCRIPTIONS = ["1-1", "1-2", "2-1", "3-1"]
EVENTS = [f"{seed}-{variant}" for seed in range(1, 6) for variant in range(1, 5)]


def log_lines(rng):
    """Some events are sent, some of those twice; one is never done, one subscription gets nothing."""
    t, lines = 0, [{"t": 0, "point": "subscription_in", "subscription": id} for id in SUBSCRIPTIONS]
    for event in EVENTS:
        t += rng.randrange(1_000, 1_000_000)
        lines.append({"t": t, "point": "event_in", "event": event})
        wanted = [id for id in SUBSCRIPTIONS[:3] for _ in range(rng.choice((0, 0, 1, 2)))]
        for id in wanted:
            t += rng.randrange(1_000, 100_000)
            lines.append({"t": t, "point": "event_out", "event": event, "subscription": id})
        if event != EVENTS[-1]:
            t += rng.randrange(1_000, 100_000)
            lines.append({"t": t, "point": "event_done", "event": event, "matches": len(set(wanted))})
    return lines


def plain_counts(lines, labels, judged):
    """Section 8.3 of the semantics document, by sets."""
    came = {line["event"] for line in lines if line["point"] == "event_in"}
    sent = {(line["subscription"], line["event"]) for line in lines if line["point"] == "event_out"}
    found = {}
    for id in SUBSCRIPTIONS:
        pairs = {event for event in came if judged is None or event.split("-")[0] in judged[id]}
        selected, relevant = {event for event in pairs if (id, event) in sent}, pairs & set(labels[id])
        tp = len(selected & relevant)
        found[id] = (tp, len(selected) - tp, len(relevant) - tp, len(pairs - selected - relevant))
    return found


def write_lists(path, lists):
    path.write_text("".join(f"{id}\t[{', '.join(items)}]\n" for id, items in lists.items()))


@pytest.mark.parametrize("with_judged", [True, False])
def test_counts_and_quality(spark, tmp_path, with_judged):
    rng = Random(f"analyser {with_judged}")
    lines = log_lines(rng)
    labels = {id: rng.sample(EVENTS, rng.randrange(1, 9)) for id in SUBSCRIPTIONS} | {"2-1": []}
    judged = {id: [str(seed) for seed in rng.sample(range(1, 6), 3)] for id in SUBSCRIPTIONS}
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_lists(tmp_path / "labels.txt", labels)
    write_lists(tmp_path / "judged.txt", judged)
    log = read_log(spark, str(tmp_path / "log.ndjson"))
    seeds = read_lists(spark, str(tmp_path / "judged.txt"), "seed") if with_judged else None
    counted = counts(log, read_lists(spark, str(tmp_path / "labels.txt"), "event"), seeds).cache()
    expected = plain_counts(lines, labels, judged if with_judged else None)
    assert {row["subscription"]: tuple(row)[1:] for row in counted.collect()} == expected
    found = quality(counted).first()
    plain = [Counts(tp, fp, fn) for tp, fp, fn, _ in expected.values()]
    for kind, mean in (("micro", micro(plain)), ("macro", macro(plain))):
        assert found[f"{kind}_precision"] == pytest.approx(mean.precision)
        assert found[f"{kind}_recall"] == pytest.approx(mean.recall)
        assert found[f"{kind}_f"] == pytest.approx(mean.f)


def test_speed(spark, tmp_path):
    lines = log_lines(Random("speed"))
    done = [line for line in lines if line.get("event") != EVENTS[-1]]  # an event that is not done is not counted
    (tmp_path / "log.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = speed(read_log(spark, str(tmp_path / "log.ndjson"))).first()
    records = [Record(line["t"], line["point"], line.get("event", "")) for line in done]
    assert found["events"] == len(EVENTS) - 1
    assert (found["rate"], found["time_ms"]) == pytest.approx(rate_and_time(records))


def test_a_log_in_which_nothing_happened(spark, tmp_path):
    (tmp_path / "log.ndjson").write_text('{"t": 1, "point": "subscription_in", "subscription": "1-1"}\n')
    write_lists(tmp_path / "labels.txt", {"1-1": ["1-1"]})
    log = read_log(spark, str(tmp_path / "log.ndjson"))
    counted = counts(log, read_lists(spark, str(tmp_path / "labels.txt"), "event"))
    assert [tuple(row) for row in counted.collect()] == [("1-1", 0, 0, 0, 0)]
    found = quality(counted).first()
    assert (found["micro_f"], found["macro_f"]) == (0, 0)
    assert tuple(speed(log).first()) == (0, 0, 0)
