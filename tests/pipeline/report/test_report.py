"""The report on a real session: every table against a plain count, and the folder as a person finds it."""

import csv
import json
import re
from collections import Counter
from html.parser import HTMLParser
from importlib import import_module

import pytest

from recado.filters.covering import covers, merge
from recado.filters.evaluate import matches, names_of
from recado.filters.normal import filter_key
from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.pipeline.errors import PipelineError
from recado.pipeline.report import hot_attributes, redundancy, run, run_report
from recado.pipeline.report.activity import heads, presence
from recado.pipeline.report.digest import digest, rejected
from recado.pipeline.report.run import write_report

SUBSCRIPTIONS = [
    ("a1", "Stock == 'PETR4' and Price < 25", "Quote"),
    ("a2", "Price < 25.0 and Stock in {'PETR4'}", "Quote"),
    ("a3", "type == 'Quote' and Stock == 'PETR4' and Price < 25", None),
    ("a4", "Stock == 'PETR4' and Price < 20", "Quote"),
    ("a5", "Stock == 'PETR4' and Price < 10", "Quote"),
    ("a6", "Stock == 'VALE3' and Price < 25", "Quote"),
    ("a7", "(Stock == 'VALE3' and Price < 5) or Volume > 1000", "Quote"),
    ("w1", "temperature > 30", "Weather"),
    ("w2", "temperature between 30 and 40 and city == 'Recife'", "Weather"),
    ("w3", "city startswith 'Re' and temprature > 30", "Weather"),
    ("w4", "temperature > 5 and temperature < 1", "Weather"),
    ("n1", "headline contains 'rain'", "News*"),
    ("any", None, None),
    ("bad", "Price <", "Quote"),
    ("worse", "Price < 5 and and", "Quote"),
]
EVENTS = [
    '{"id": "e1", "type": "Quote", "Stock": "PETR4", "Price": 19.5, "Volume": 10}',
    '{"id": "e2", "type": "Quote", "Stock": "PETR4", "Price": 9, "Volume": 5000}',
    '{"id": "e3", "type": "Quote", "Stock": "VALE3", "Price": 99, "Volume": 1, "tags": []}',
    '{"id": "e4", "type": "Weather", "city": "Recife", "temperature": 33}',
    '{"id": "e5", "type": "Weather", "city": "Oslo", "temperature": -3}',
    '{"id": "e6", "headline": "no rain", "tags": ["x", "y"]}',
    '{"no id": 1}',
]


def records():
    out = []
    for id, filter, type in SUBSCRIPTIONS:
        members = {"id": id, "filter": filter, "type": type}
        out.append({name: value for name, value in members.items() if value is not None})
    return out


def readable():
    return [read_subscription(json.dumps(record)) for record in records() if record["id"] not in {"bad", "worse"}]


def events():
    return [read_event(text) for text in EVENTS[:-1]]


def pairs():
    return [
        (event.id, subscription.id, f"user:{subscription.id[0]}")
        for event in events()
        for subscription in readable()
        if matches(subscription.whole_filter(), event)
    ]


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "new" / "folder"
    subscriptions = spark.createDataFrame(SUBSCRIPTIONS, "id string, filter string, type string")
    notifications = spark.createDataFrame(
        pairs() + pairs()[:3], "event_id string, subscription_id string, owner string"
    )
    texts = spark.createDataFrame([(text,) for text in EVENTS], "value string")
    summary = run_report(spark, subscriptions, texts, notifications, folder, "A <small> set & its events")
    return folder, summary


def table(made, name):
    with (made[0] / "tables" / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_counts_of_equal_filters(made):
    keys = Counter(filter_key(subscription.whole_filter()) for subscription in readable())
    summary = made[1]
    assert summary["subscriptions"] == 13
    assert summary["rejected_subscriptions"] == 2
    assert summary["filters"] == len(keys) == 11
    assert summary["equal"] == sum(count for count in keys.values() if count > 1) == 3
    assert summary["never_matching"] == 1
    assert summary["super_nodes"]["redundancy"] == pytest.approx(1 - 11 / 13)
    assert summary["super_nodes"]["children_most"] == 2


def test_covering_and_merging_are_what_all_pairs_say(made):
    kinds = {filter_key(s.whole_filter()): (s.whole_filter(), s.type) for s in reversed(readable())}
    filters = {key: (filter, "Quote" if "Quote" in key else type) for key, (filter, type) in kinds.items()}
    covered = sum(
        any(covers(f, g) for other, (f, _) in filters.items() if other != key) for key, (g, _) in filters.items()
    )

    def joins(key, f, type):
        others = (g for other, (g, same) in filters.items() if other != key and same == type)
        return any(not covers(f, g) and not covers(g, f) and merge(f, g) is not None for g in others)

    summary = made[1]
    assert (summary["covered"]["filters"], summary["covered"]["is"]) == (covered, "exact")
    joined = sum(joins(key, f, type) for key, (f, type) in filters.items())
    assert (summary["mergeable"]["filters"], summary["mergeable"]["is"]) == (joined, "exact")
    assert summary["routing"]["covering"] == 11 - covered
    by_type = {row["type"]: row for row in table(made, "redundancy")}
    assert list(by_type) == ["Quote", "Weather", "(any type)", "News*", "(whole set)"]
    assert by_type["Quote"]["depth"] == "3"


def test_bad_rows_are_told(made):
    reasons = [row["reason"] for row in table(made, "rejected")]
    assert len(reasons) == 2
    assert "subscription 'bad': expected a value but found the end of the filter" in reasons[0]
    assert made[1]["rejected_events"] == 1


def test_attributes(made):
    rows = {row["attribute"]: row for row in table(made, "attributes")}
    for name, row in rows.items():
        assert int(row["subscriptions"]) == sum(name in names_of(s.whole_filter()) for s in readable())
        assert int(row["present"]) == sum(name in dict(event.items()) for event in events())
    assert json.loads(rows["Stock"]["operators"]) == {"==": 6, "in": 1}
    assert json.loads(rows["Stock"]["values"])[0] == {"value": "PETR4", "subscriptions": 5}
    assert rows["Stock"]["distinct_values"] == "2"
    assert made[1]["attributes"]["in_no_event"] == ["temprature"]


def test_selectivity_and_the_top(made):
    counts = Counter(event for event, _, _ in pairs())
    per_event = [counts[event.id] for event in events()]
    whole = table(made, "selectivity")[-1]
    assert (int(whole["events"]), int(whole["matches"])) == (6, sum(per_event))
    assert float(whole["mean"]) == pytest.approx(sum(per_event) / 6)
    assert int(whole["most"]) == max(per_event)
    assert float(whole["share"]) == pytest.approx(sum(per_event) / 6 / 13)
    histogram = {int(row["least"]): int(row["events"]) for row in table(made, "histogram")}
    assert histogram == Counter(0 if not n else 1 << n.bit_length() - 1 for n in per_event)
    best = Counter(subscription for _, subscription, _ in pairs())
    rows = table(made, "top_subscriptions")
    assert {row["name"]: int(row["notifications"]) for row in rows} == best
    assert rows[0]["name"] == "any"
    types = {row["name"]: int(row["notifications"]) for row in table(made, "top_types")}
    kinds = {event.id: event.type or "(no type)" for event in events()}
    assert types == Counter(kinds[event] for event, _, _ in pairs())
    assert made[1]["reached_subscriptions"] == len(best)
    assert made[1]["notifications"] == len(pairs())


def test_the_summary_is_in_the_folder(made):
    folder, summary = made
    assert json.loads((folder / "summary.json").read_text()) == summary
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == set(summary["files"])
    for path in folder.glob("pictures/*"):
        start = path.read_bytes()[:8]
        assert start == (b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else b"<?xml ve")


class Reader(HTMLParser):
    """Tags that are open, and everything a browser would load."""

    def __init__(self):
        super().__init__()
        self.open, self.loaded, self.ids, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        held = dict(attributes)
        self.ids += [held["id"]] if "id" in held else []
        self.loaded += [held[name] for name in ("src", "href", "xlink:href") if name in held]
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_is_whole_and_stands_alone(made):
    html = (made[0] / "index.html").read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert all(place.startswith("#") and place[1:] in reader.ids for place in reader.loaded)
    assert not re.search(r"url\(['\"]?(?!#)|@import|<script", html)
    assert "<small>" not in html
    text = " ".join(" ".join(reader.text).split())
    assert "A <small> set & its events" in text
    assert "13 subscriptions · 6 events" in text
    assert "No event has temprature" in text
    assert "1 subscription can never match" in text


def test_a_sample_is_close_and_says_so(spark, monkeypatch):
    monkeypatch.setattr(import_module("recado.pipeline.report.redundancy"), "PAIRS", 20)
    rows = [(f"s{n}", f"x == {n % 7} and y < {n}", "T") for n in range(1, 400)]
    frame = spark.createDataFrame(rows, "id string, filter string, type string")
    whole = redundancy(frame, sample=150).collect()[-1]
    assert (whole["covered_is"], whole["mergeable_is"], whole["depth_is"]) == ("sample", "sample", "at least")
    assert 90 < whole["judged"] < 210
    assert abs(whole["covered_share"] - 392 / 399) <= max(whole["covered_margin"], 0.03)
    assert 2 <= whole["depth"] <= 20


def test_an_empty_set_and_a_folder_that_cannot_be_written(spark, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(run, "write_report", lambda *given: made.append(given) or write_report(*given))
    frame = spark.createDataFrame([], "id string, filter string")
    summary = run_report(spark, frame, None, None, tmp_path / "report")
    assert (summary["subscriptions"], summary["filters"], summary["covered"]["share"]) == (0, 0, 0)
    assert "0 subscriptions" in (tmp_path / "report" / "index.html").read_text()
    assert "0 subscriptions" in summary._repr_html_()

    # Written again from what was computed, since computing takes Spark seconds and cannot fail for this reason.
    ((tables, bare, _),) = made
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="the report cannot be written to"):
        write_report(tables, bare, tmp_path / "file")


def test_events_in_columns_are_counted_alike(spark):
    frame = spark.createDataFrame(
        [("e1", "Quote", (1.0, None), [1]), ("e2", "", (None, "x"), []), (None, "Quote", None, None)],
        "id string, type string, data struct<price: double, `odd.name`: string>, tags array<int>",
    )
    found = {row["attribute"]: (row["present"], row["share"]) for row in presence(frame).collect()}
    third = pytest.approx(1 / 3)
    assert found == {
        "id": (2, pytest.approx(2 / 3)),
        "type": (2, pytest.approx(2 / 3)),
        "data.price": (1, third),
        "data.odd.name": (1, third),
        "tags": (1, third),
    }
    assert [tuple(row) for row in heads(frame).orderBy("id").collect()] == [
        (None, "Quote", "the event has no id: its column id is null"),
        ("e1", "Quote", None),
        ("e2", None, None),
    ]


def test_lines_and_dialects_are_subscriptions_too(spark):
    lines = [
        '{"id": "1", "filters": [{"exact": {"type": "a"}}], "constraints": [{"kind": "unknown"}]}',
        '{"id": 2, "type": "a"}',
        '{"id": "3", "filtre": "x"}',
    ]
    digests = digest(spark.createDataFrame([(line,) for line in lines], "value string"))
    assert [row["key"] for row in digests.orderBy("id").where("reason is null").collect()] == ['"type"="a"'] * 2
    assert "there is no member `filtre`" in rejected(digests).collect()[0]["reason"]
    nested = spark.createDataFrame(
        [("1", [{"exact": {"type": "a"}}])], "id string, filters array<struct<exact: map<string, string>>>"
    )
    row = hot_attributes(nested).collect()[0]
    assert (row["attribute"], row["subscriptions"], row["operators"]) == ("type", 1, {"==": 1})


def test_columns_that_are_not_there(spark, tmp_path):
    frame = spark.createDataFrame([("1",)], "name string")
    with pytest.raises(PipelineError, match="subscriptions need a column 'id'"):
        run_report(spark, frame, None, None, tmp_path)
    good = spark.createDataFrame([("1",)], "id string")
    with pytest.raises(PipelineError, match="notifications need a column 'event_id'; there are: name"):
        run_report(spark, good, None, frame, tmp_path)
