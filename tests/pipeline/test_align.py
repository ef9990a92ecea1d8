"""Semantic subscriptions on Spark: the library's matches, the library's scores, and a file of them."""

import pyarrow as pa
import pytest

from recado.errors import EventError
from recado.filters.records import read_subscription
from recado.filters.syntax import parse_filter
from recado.model.codec import write_flat
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.pipeline.align import align, event_names, run_align, wanted_names
from recado.pipeline.errors import PipelineError
from recado.pipeline.match import EventForm, match, match_record_batch
from recado.pipeline.meanings import Knowledge, events_of, good_events, semantics
from recado.pipeline.readers import Source
from recado.pipeline.sets import DETAIL_SCHEMA, SubscriptionSet, build
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.match import semantic_match
from recado.semantics.settings import SemanticSettings

RECORDS = [
    '{"id": "exact", "filter": "price > 50", "owner": "ana"}',
    '{"id": "words", "filter": "{sale price, GT, 50}", "owner": "rui", "semantic": {"measure": "mean"}}',
    '{"id": "typed", "type": "Sale", "filter": "{cost, GT, 50}", "semantic": {"measure": "mean"}}',
    '{"id": "similar", "filter": "{nation, SM, country}", "semantic": {"measure": "mean", "unmatched": "ignore"}}',
    '{"id": "both", "filter": "{low price, GT, 5; price, LT, 20}", "semantic": {"measure": "feng"}}',
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


def oracle(events=EVENTS):
    return sorted((e.id, s.id) for e in events for s in subscriptions() if semantic_match(e, s))


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
    with pytest.raises(PipelineError, match="recado pipeline align"):
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


def test_on_spark_in_two_forms(spark):
    lines = spark.createDataFrame([(record,) for record in RECORDS], "value string")
    texts = spark.createDataFrame([(write_flat(event).decode(),) for event in EVENTS], "value string")
    assert fields(match(texts, lines, json="value").toArrow()) == oracle()
    rows = [("1", "Sale", 60, "nation"), ("2", None, 40, "x"), ("3", None, None, "country")]
    typed = spark.createDataFrame(rows, "id string, type string, `total price` long, country string")
    same = [
        Event(id, type or "", attributes={k: v for k, v in (("total price", p), ("country", c)) if v is not None})
        for id, type, p, c in rows
    ]
    assert oracle(same)
    assert fields(match(typed, lines).toArrow()) == oracle(same)


def test_the_scores_are_the_library_s_and_the_file_has_them_all(spark, tmp_path):
    texts = spark.createDataFrame([(write_flat(e).decode(),) for e in EVENTS] + [("no event",)], "value string")
    names = event_names(texts, json="value")
    attributes = sorted(row.name for row in names.collect())
    assert attributes == ["Kaufpreis", "amount", "cost", "country", "humidity", "price"]
    plain = Semantics()
    by_scope = {plain.scope(one.settings): one for one in wanted_names(subscriptions())}
    table = align(names, subscriptions()).collect()
    assert len(table) == sum(len(one.names) for one in by_scope.values()) * len(attributes)
    for row in table:
        wanted = by_scope[row.scope]
        expected = plain.measure(wanted.settings).similarity(
            plain.words(row.constraint, wanted.settings), plain.words(row.attribute, wanted.settings)
        )
        assert row.similarity == expected
    out = tmp_path / "similarities.json"
    summary = run_align(spark, subscriptions(), Source(texts, {"json": "value"}), out)
    assert (summary["pairs"], summary["attributes"], summary["subscriptions"]) == (len(table), 6, 5)
    cache = SimilarityCache()
    knowing = Semantics(cache=cache)
    assert cache.load(out, knowing.digest) > 0
    for one in by_scope.values():
        knowing.similarities(one.names, attributes, one.settings)
    assert cache.misses == 0
    found = match(texts, spark.createDataFrame([(r,) for r in RECORDS], "value string"), json="value",
                  bad_rows="keep", knowledge=Knowledge(similarities=str(out))).where("rejected is null")  # fmt: skip
    assert fields(found.toArrow()) == oracle()


def test_subscriptions_count_by_their_own_measure_or_the_default():
    wanted = wanted_names(subscriptions(), SemanticSettings("levenshtein"))
    assert [(one.settings.measure, one.names) for one in wanted] == [
        ("levenshtein", ("price",)),
        ("mean", ("sale price", "cost", "nation")),
        ("feng", ("low price", "price")),
    ]
