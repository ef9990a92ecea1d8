"""Semantic subscriptions on Spark: the library's matches, the library's scores, and a file of them."""

import json
from datetime import date
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recado.errors import EventError, RecadoError
from recado.filters.records import read_subscription
from recado.filters.syntax import parse_filter
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.pipeline.align import align, event_names, run_align, wanted_names
from recado.pipeline.errors import PipelineError
from recado.pipeline.match import match
from recado.pipeline.meanings import events_of, good_events, pack_tables, semantics, unpack_tables
from recado.pipeline.partitioned.build import PARTITION, REASON, Placer
from recado.pipeline.partitioned.plan import make_plan
from recado.pipeline.readers import Source
from recado.pipeline.sets import DETAIL_SCHEMA, SubscriptionSet, build
from recado.pipeline.worker import EventForm, match_record_batch
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Knowledge
from recado.semantics.lexicon.information import load_lexicon
from recado.semantics.lexicon.languages import add_language
from recado.semantics.match import semantic_match
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.overrides import Given, ReviewList
from recado.semantics.settings import DEFAULT, SemanticSettings

SAMPLE = Path(__file__).parents[1] / "semantics" / "por-sample.tab"
RECORDS = [
    '{"id": "exact", "filter": "price > 50", "owner": "ana"}',
    '{"id": "words", "filter": "{sale price, GT, 50}", "owner": "rui", "semantic": {"measure": "mean"}}',
    '{"id": "typed", "type": "Sale", "filter": "{cost, GT, 50}", "semantic": {"measure": "mean"}}',
    '{"id": "similar", "filter": "{nation, SM, country}", "semantic": {"measure": "mean", "unmatched": "ignore"}}',
    '{"id": "both", "filter": "{low price, GT, 5; price, LT, 20}", "semantic": {"measure": "feng", "rename": true}}',
]
EVENTS = [
    Event("a", "Sale", attributes={"price": 60, "country": "nation"}),
    Event("b", attributes={"cost": 70, "amount": 1}),
    Event("c", attributes={"price": (1, 10, 90)}),
    Event("d", attributes={"cost": (), "humidity": 0.5}),
]
EVENTS += [Event(f"e{n}", "Sale", attributes={"price": n, "Kaufpreis": n + 30}) for n in range(40, 70)]


def subscriptions():
    return [read_subscription(record) for record in RECORDS]


def oracle(events=EVENTS, known=None):
    knowing, default = (known.semantics(), known.default) if known else (None, DEFAULT)
    asked = subscriptions()
    return sorted((e.id, s.id) for e in events for s in asked if semantic_match(e, s, None, knowing, default))


def fields(found):
    return sorted(zip(found.column("event_id").to_pylist(), found.column("subscription_id").to_pylist(), strict=True))


@pytest.fixture
def loaded(tmp_path):
    subscription_set = SubscriptionSet(tmp_path / "set")
    assert subscription_set.publish(subscriptions()).semantic == 4
    return subscription_set.load(1)


def test_a_batch_gives_what_the_oracle_gives(loaded):
    texts = [write_flat(event).decode() for event in EVENTS]
    batch = pa.RecordBatch.from_pydict({"value": [*texts[:2], "no event", *texts[2:]]})
    names = ("event_id", "subscription_id", "owner", "event_time", "rejected")
    found = pa.Table.from_batches(list(match_record_batch(loaded, batch, EventForm("json", "value"), names, "keep")))
    assert len(oracle()) > 60
    kept = found.filter(pa.compute.is_null(found.column("rejected")))
    assert fields(kept) == oracle()
    assert found.num_rows == kept.num_rows + 1
    owners = dict(zip(kept.column("subscription_id").to_pylist(), kept.column("owner").to_pylist(), strict=True))
    assert owners["words"] == "rui"


def test_versions_change_and_old_ones_can_be_read(tmp_path):
    subscription_set = SubscriptionSet(tmp_path / "set")
    subscription_set.publish(subscriptions())
    version = subscription_set.change([Subscription("words", parse_filter("price > 50"))], ["typed"])
    assert (version.subscriptions, version.semantic) == (4, 2)
    index, details = build([Subscription("s", parse_filter("x > 1"))])
    old = details.drop_columns(["semantic"])
    folder = tmp_path / "old"
    folder.mkdir()
    index.save(folder / "index.recado")
    with pa.OSFile(str(folder / "details.arrow"), "wb") as file, pa.ipc.new_file(file, old.schema) as writer:
        writer.write_table(old)
    from recado.pipeline.sets import load_folder

    opened = load_folder(folder)
    assert opened.details.schema.names == DETAIL_SCHEMA.names
    assert opened.meanings(Knowledge()) is None


def test_wrong_settings_and_wrong_files_are_named(tmp_path):
    with pytest.raises(PipelineError, match=r"'s': \$\.semantic\.measure"):
        build([Subscription("s", parse_filter("x > 1"), semantic={"measure": "no"})])
    with pytest.raises(RecadoError, match="recado pipeline align"):
        semantics(Knowledge(similarities=str(tmp_path / "nothing")))


def test_columns_are_events_in_their_order():
    batch = pa.RecordBatch.from_pydict({"b": [1, None], "id": ["x", "y"], "a": [[1, None], []], "type": ["t", ""]})
    assert list(events_of(batch, "columns", "")) == [
        Event("x", "t", attributes={"b": 1, "a": (1,)}),
        Event("y", "", attributes={"a": ()}),
    ]
    texts = pa.RecordBatch.from_pydict({"value": ['{"id": "1"}', "no event"]})
    assert [event.id for event in good_events(texts, "json", "value")] == ["1"]
    with pytest.raises(EventError):
        list(events_of(texts, "json", "value"))
    days = pa.RecordBatch.from_pydict({"id": [1], "b": [2], "day": [date(2026, 11, 15)]})
    assert list(good_events(days, "columns", "")) == [Event("1", attributes={"b": 2})]
    with pytest.raises(EventError, match="column 'day' has the type date"):
        list(events_of(days, "columns", ""))


def lines_of(spark, texts):
    return spark.createDataFrame([(text,) for text in texts], "value string").coalesce(1)  # one worker loads the words


def test_typed_columns_on_spark(spark):
    rows = [("1", "Sale", 60, "nation"), ("2", None, 40, "x"), ("3", None, None, "country")]
    typed = spark.createDataFrame(rows, "id string, type string, `total price` long, country string").coalesce(1)
    same = [
        Event(id, type or "", attributes={k: v for k, v in (("total price", p), ("country", c)) if v is not None})
        for id, type, p, c in rows
    ]
    assert oracle(same)
    assert fields(match(typed, lines_of(spark, RECORDS)).toArrow()) == oracle(same)


def test_the_scores_are_the_library_s_and_the_file_has_them_all(spark, tmp_path):
    texts = lines_of(spark, [*(write_flat(event).decode() for event in EVENTS), "no event"])
    attributes = ["Kaufpreis", "amount", "cost", "country", "humidity", "price"]
    known = Knowledge(SemanticSettings("mean"), given=(Given("amount", "cost", 0.9, "word"),))
    out = tmp_path / "similarities.json"
    summary = run_align(spark, subscriptions(), Source(texts, {"json": "value"}), out, knowledge=known)
    plain = known.semantics()
    by_scope = {plain.scope(one.settings): one for one in wanted_names(subscriptions(), known.default)}
    pairs = sum(len(one.names) for one in by_scope.values()) * len(attributes)
    assert (summary["pairs"], summary["attributes"], summary["subscriptions"]) == (pairs, 6, 5)
    cache = SimilarityCache()
    assert cache.load(out, plain.digest) == pairs - 1  # cost ~ price is price ~ cost
    for scope, wanted in by_scope.items():
        for name in wanted.names:  # what was given is not in the file: it is put over it
            row = Knowledge(known.default).semantics().similarities([name], attributes, wanted.settings)[0].tolist()
            assert cache.get(scope, [(name, attribute) for attribute in attributes]) == pytest.approx(row, abs=1e-9)
    table = align(event_names(texts, json="value"), subscriptions(), knowledge=known)
    assert table.columns == ["scope", "constraint", "attribute", "similarity"]
    decided = (Given("sale price", "price", 0.0, "name", "refused"), Given("nation", "amount", 1.0, "name", "accepted"))
    all_known = msgspec.structs.replace(known, decided=decided, similarities=str(out))
    found = match(
        texts, lines_of(spark, RECORDS), json="value", bad_rows="keep", include_renamed=True, knowledge=all_known
    )
    table = found.where("rejected is null").toArrow()
    assert fields(table) == oracle(known=all_known) != oracle()
    assert renamed_of(table) == renamed_oracle(all_known)


def write_tables(folder):
    """A table of frequencies, and one of similarities that was made with it; the knowledge that names them."""
    (folder / "frequencies" / "words.parquet").mkdir(parents=True)
    about = {"format": "recado-frequencies-1", "tokens": 100, "language": "en"}
    (folder / "frequencies" / "frequencies.json").write_text(json.dumps(about))
    (folder / "frequencies" / "words.parquet" / "_SUCCESS").write_text("")
    words = pa.table({"lemma": ["price", "cost"], "count": [30, 2]})
    pq.write_table(words, folder / "frequencies" / "words.parquet" / "part-0.parquet")
    known = Knowledge(SemanticSettings("mean"), frequencies=str(folder / "frequencies"))
    cache = SimilarityCache()
    cache.put("of nobody", [("price", "cost", 0.5)])
    cache.save(folder / "similarities.json", known.semantics().digest)
    return known


def test_tables_travel_in_one_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RECADO_COPIES", str(tmp_path / "copies"))
    known = msgspec.structs.replace(write_tables(tmp_path), similarities=str(tmp_path / "similarities.json"))
    packed, named = pack_tables(known, tmp_path)
    assert named.frequencies.startswith("sent:")
    assert msgspec.structs.replace(named, frequencies=known.frequencies, similarities=known.similarities) == known
    (tmp_path / "other").mkdir()
    assert pack_tables(known, tmp_path / "other")[0].name == packed.name  # by content
    there = unpack_tables(named, lambda name: str(tmp_path / name))
    assert Path(there.similarities).is_relative_to(tmp_path / "copies")
    assert {path.name for path in Path(there.frequencies).rglob("*.*")} == {
        "frequencies.json",
        "words.parquet",
        "part-0.parquet",
    }
    assert pack_tables(Knowledge(), tmp_path) is None
    with pytest.raises(PipelineError, match="nothing cannot be read: No such file"):
        pack_tables(Knowledge(similarities=str(tmp_path / "nothing")), tmp_path)


def test_tables_at_a_url(spark, far_url, tmp_path):
    """An executor that did not find them would say so."""
    known = write_tables(tmp_path / "far")
    far = msgspec.structs.replace(
        known, frequencies=f"{far_url}/frequencies", similarities=f"{far_url}/similarities.json"
    )
    rows = lines_of(spark, [write_flat(EVENTS[0]).decode()])
    found = match(rows, lines_of(spark, RECORDS), json="value", knowledge=far)
    assert fields(found.toArrow()) == oracle(EVENTS[:1], known)


def renamed_of(table):
    columns = (table.column(name).to_pylist() for name in ("event_id", "subscription_id", "renamed"))
    return {(event, subscription): json.loads(text) for event, subscription, text in zip(*columns, strict=True) if text}


def renamed_oracle(known):
    """What the service would send."""
    matcher = SemanticMatcher(known.semantics(), known.default)
    matcher.add_many(subscriptions())
    events = {event.id: event for event in EVENTS}
    return {
        (id, "both"): json.loads(write_flat(matcher.renamed(events[id], "both")))
        for id, subscription in oracle(known=known)
        if subscription == "both"
    }


def test_what_people_decided_counts_without_being_asked_for(loaded, tmp_path, monkeypatch):
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "data"))
    decided = ReviewList()
    decided.decide("sale price", "price", accept=False)
    decided.save()
    batch = pa.RecordBatch.from_pydict({"value": [write_flat(event).decode() for event in EVENTS]})
    names, known = ("event_id", "subscription_id", "renamed"), Knowledge.read()
    found = match_record_batch(loaded, batch, EventForm("json", "value"), names, "fail", knowledge=known)
    table = pa.Table.from_batches(list(found))
    assert fields(table) == oracle(known=known) != oracle()
    assert renamed_of(table) == renamed_oracle(known)


def test_a_language_that_was_added_and_the_defaults_of_a_job(tmp_path, monkeypatch):
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "data"))
    add_language("por", SAMPLE, load_lexicon())
    records = [
        '{"id": "por", "filter": "{umidade, GT, 60}", "semantic": {"language": ["en", "pt"]}}',
        '{"id": "far", "filter": "{humidity, GT, 60; colour, EQ, red}", "semantic": {}}',
    ]
    subscription_set = SubscriptionSet(tmp_path / "set")
    subscription_set.publish(map(read_subscription, records))
    batch = pa.RecordBatch.from_pydict({"id": ["a", "b"], "humidity": [70, 50]})
    for unmatched, expected in (("fail", ["por"]), ("ignore", ["far", "por"])):
        known = Knowledge(SemanticSettings("mean", unmatched=unmatched))
        found = match_record_batch(
            subscription_set.load(1), batch, EventForm("columns"), ("event_id", "subscription_id"), "fail",
            knowledge=known,
        )  # fmt: skip
        assert fields(pa.Table.from_batches(list(found))) == [("a", id) for id in expected]


def test_partitions_refuse_semantic_subscriptions_and_say_what_to_do():
    rows = pa.RecordBatch.from_pydict({"value": RECORDS[:2]})
    [placed] = Placer(make_plan([], 2))(iter([rows]))
    exact, semantic = placed.column(REASON).to_pylist()
    assert exact is None
    assert "file of their own" in semantic
    assert placed.column(PARTITION).to_pylist()[1] == 2


def test_subscriptions_count_by_their_own_measure_or_the_default():
    wanted = wanted_names(subscriptions(), SemanticSettings("levenshtein"))
    assert [(one.settings.measure, one.names) for one in wanted] == [
        ("levenshtein", ("price",)),
        ("mean", ("sale price", "cost", "nation")),
        ("feng", ("low price", "price")),
    ]
