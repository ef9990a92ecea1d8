"""Constraints as the executors apply them, under Spark's own tester of stateful processors; no session is needed."""

from datetime import timedelta
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming import TwsTester

from pipeline.constraint_rows import CLOSING, INSTANT, OFTEN, SCHEMA, T0, plain, random_batches
from recado.pipeline.constraints import (
    BUCKET,
    LAYOUT,
    STATE,
    ConstraintProcessor,
    Memory,
    Packer,
    Terms,
    from_bytes,
    gathered,
    judge,
    pack_memory,
    to_bytes,
    unpack,
    unpack_memory,
)
from recado.pipeline.errors import PipelineError

TERMS = Terms(buckets=3)


def table(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


def with_bucket(rows, buckets=TERMS.buckets):
    numbers = [0 if row["subscription_id"] is None else sum(row["subscription_id"].encode()) % buckets for row in rows]
    return table(rows).append_column(BUCKET, pa.array(numbers, pa.int32()))


def row(seconds, constraints=f"[{OFTEN}]", **others):
    time = T0 + timedelta(seconds=seconds)
    given = {"event_id": f"e-{seconds}", "subscription_id": "s-1", "event_time": time, "matched_at": time}
    return dict.fromkeys(SCHEMA.names) | given | {"constraints": constraints} | others


class Through:
    """Rows in, ids out, through packing, the processor and unpacking."""

    def __init__(self, terms=TERMS, watermark=False):
        self.packer = Packer(terms)
        late = {"timeMode": "EventTime", "eventTimeExtractor": lambda _: 2**60} if watermark else {}
        self.spark = TwsTester(ConstraintProcessor(terms), **late)

    def run(self, rows, parts=1):
        batches = [with_bucket(rows[part::parts]).combine_chunks().to_batches() for part in range(parts)]
        packed = [out for part in batches for out in self.packer.pack(part)]
        freight = {}
        for one in packed:
            for item in one.to_pylist():
                freight.setdefault(item[BUCKET], []).append(Row(**item))
        return sorted(id for key, chunks in freight.items() for id in self.ids(self.spark.test(key, chunks)))

    def ids(self, chunks):
        batch = pa.RecordBatch.from_pydict({"chunk": pa.array([one.chunk for one in chunks], pa.binary())})
        return [id for rows in unpack([batch]) for id in rows["event_id"].to_pylist()]


@pytest.mark.parametrize("parts", [1, 4])
@given(seed=st.integers(0, 2**32), connected=st.booleans())
@settings(max_examples=25)
def test_the_processor_does_what_plain_code_does(parts, seed, connected):
    batches = random_batches(seed, batches=3, rows=60)
    tester = Through(Terms(connected=connected, buckets=3))
    assert [tester.run(rows, parts) for rows in batches] == plain(batches, connected=connected)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_with_a_watermark_it_forgets_and_judges_alike(seed):
    batches = random_batches(seed, batches=4, rows=60)
    tester, given, watermarks = Through(watermark=True), [], []
    for number, rows in enumerate(batches):
        if number:
            watermark = T0 + timedelta(seconds=30 * number)
            tester.spark.setWatermark(int(watermark.timestamp() * 1000))
        watermarks.append(watermark if number else None)
        given.append(tester.run(rows))
    assert given == plain(batches, watermarks)
    for key in range(TERMS.buckets):
        stored = tester.spark.peekValueState(STATE, key)
        until = [end for _, end in unpack_memory(stored[0], 3).notified.values()] if stored else []
        assert all(end > watermark.timestamp() * 1_000_000 for end in until)


def test_frequency_in_one_batch_and_over_many():
    seconds = [0, 10, 5, 7, 14.9, 29, 31]
    assert Through().run([row(s) for s in seconds]) == ["e-0", "e-14.9", "e-29", "e-7"]
    tester = Through()
    assert [tester.run([row(s)]) for s in seconds] == [["e-0"], ["e-10"], [], [], [], ["e-29"], []]


def test_a_late_event_is_refused_while_the_last_notification_is_remembered():
    tester = Through()
    assert tester.run([row(100)]) == ["e-100"]
    assert tester.run([row(0)]) == []


def test_a_late_notification_does_not_hide_a_later_one():
    away = '[{"kind": "frequency", "amount": 7, "unit": "seconds", "when": "disconnected"}]'
    tester = Through()
    assert tester.run([row(100, away, connected=True)]) == ["e-100"]
    assert tester.run([row(0, away, connected=True)]) == ["e-0"]
    assert tester.run([row(101, away, connected=False)]) == []


def test_without_a_column_all_owners_are_as_told():
    away = '[{"kind": "frequency", "amount": 7, "unit": "seconds", "when": "disconnected"}]'
    rows = table([row(0, away), row(1, away)]).drop_columns(["connected"])
    assert judge(rows, Memory(3), Terms(connected=True)).tolist() == [0, 1]
    assert judge(rows, Memory(3), Terms(connected=False)).tolist() == [0]


def test_equal_times_are_told_apart_by_the_event_id():
    rows = [row(0, event_id=id) for id in ("b", "a", "c")]
    assert Through().run(rows, parts=3) == ["a"]


def test_state_that_nothing_needs_is_removed():
    tester = Through(watermark=True)
    key = sum(b"s-1") % TERMS.buckets
    assert tester.run([row(0)]) == ["e-0"]
    assert tester.spark.peekValueState(STATE, key) is not None
    tester.spark.setWatermark(int((T0.timestamp() + 60) * 1000))
    assert tester.run([row(1)]) == []
    assert tester.spark.peekValueState(STATE, key) is None
    assert tester.run([row(60)]) == ["e-60"]


def test_rows_without_a_frequency_touch_no_state():
    tester = Through()
    rows = [row(0, None), row(1, "[]"), row(61, f"[{CLOSING}]"), row(2, f"[{CLOSING}]"), row(3, subscription_id=None)]
    assert tester.run(rows) == ["e-0", "e-1", "e-3", "e-61"]
    assert tester.spark.handle.value_states[STATE].state == {}


def test_packing_changes_no_value():
    rows = [row(s, None, event={"price": 1.5, "tags": ["x", None]}, owner="ana") for s in range(5)]
    (batch,) = Packer(TERMS).pack(with_bucket(rows).to_batches())
    (again,) = unpack([batch])
    assert again.to_pylist() == rows
    assert again.schema == SCHEMA


def test_nothing_becomes_nothing():
    assert list(Packer(TERMS).pack([])) == []
    assert list(Packer(TERMS).pack(with_bucket([]).to_batches())) == []
    assert list(unpack([])) == []
    assert list(gathered([table([row(0)]).to_batches()[0].slice(0, 0)])) == []


def test_passing_rows_are_spread():
    packer, passing = Packer(TERMS), count()
    numbers = {number for _ in range(5) for number, _ in packer.chunks(with_bucket([row(0, None)]), passing)}
    assert numbers == {-1, -2, -3, -4, -5}


def test_batches_are_gathered_up_to_a_size():
    batches = table([row(s) for s in range(1000)]).to_batches() * 150
    sizes = [len(one) for one in gathered(batches)]
    assert sum(sizes) == 150_000
    assert sizes[0] == 66_000
    assert from_bytes(to_bytes(table([row(1)]))).to_pylist() == [row(1)]


@pytest.mark.parametrize("year", [-250_000, 250_000])
def test_times_beyond_the_calendar_count_as_its_ends(year):
    far = pa.array([year * 31_556_952 * 10**6], INSTANT)
    rows = table([row(0)]).set_column(3, "event_time", far)
    memory = Memory(3)
    assert judge(rows, memory, TERMS).tolist() == [0]
    assert judge(rows, memory, TERMS).tolist() == []


def test_a_row_without_any_time_is_an_error():
    with pytest.raises(PipelineError, match="event 'e-1' has neither event_time nor matched_at"):
        Through().run([row(0), row(1, event_time=None, matched_at=None)])


def test_constraints_that_cannot_be_read_name_their_subscription():
    with pytest.raises(PipelineError, match=r"subscription 's-9': \$.constraints\[0\].kind: \"x\" is none of"):
        Through().run([row(0), row(1, '[{"kind": "x"}]', subscription_id="s-9")])


def test_memory_is_packed_and_unpacked():
    memory = Memory(3, {"s-1": (5, 10), "ü": (-7, 2**62)})
    packed = pack_memory(memory)
    assert packed[0] == LAYOUT
    assert unpack_memory(packed, 3) == memory
    assert unpack_memory(None, 3) == Memory(3)


def test_memory_of_another_layout_or_number_of_buckets_is_refused():
    packed = pack_memory(Memory(3))
    with pytest.raises(PipelineError, match=r"in layout 9, and this Recado reads layout 1; continue with"):
        unpack_memory(b"\x09" + packed[1:], 3)
    with pytest.raises(PipelineError, match=r"begun with 3 buckets, and 4 were asked for"):
        unpack_memory(packed, 4)
