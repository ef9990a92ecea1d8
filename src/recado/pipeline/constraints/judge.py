"""The policy applied to rows of Arrow: what is decided without memory, and what with it.

Rows come with the columns that ``constrain`` asks for; instants are microseconds since 1970 on the way and datetimes
where the policy reads them. An event outside of the years 1 to 9999 counts as at the nearer end.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recado.delivery.constraints import Constraints, frequency_of
from recado.delivery.policy import satisfied
from recado.delivery.reading import decode_constraints
from recado.pipeline.constraints.memory import Memory
from recado.pipeline.errors import PipelineError

Longs: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


class Terms(msgspec.Struct, frozen=True):
    """What holds for a whole query."""

    tz: str = "UTC"
    connected: bool = True
    buckets: int = 256


class Rule(msgspec.Struct, frozen=True):
    """The constraints of a text, and the period of their frequency in microseconds."""

    constraints: Constraints
    period: int | None


def judge(rows: pa.Table, memory: Memory, terms: Terms, watermark: int | None = None) -> Longs:
    """Which rows become notifications; the memory is told of them. What is older than the watermark does not.

    Every row has a subscription and constraints.
    """
    keys = pa.table({"time": judged_times(rows), "id": rows["event_id"]})
    times, subscriptions = keys["time"].to_pylist(), rows["subscription_id"].to_pylist()
    rules, connected = _rules(rows, terms), _connected(rows, terms)
    wanted = []
    for row in pc.sort_indices(keys, [("time", "ascending"), ("id", "ascending")]).to_pylist():
        time, subscription, rule = times[row], subscriptions[row], rules[row]
        if watermark is not None and time < watermark:
            continue
        now = _instant(time)
        entry = memory.notified.get(subscription)
        last = None if entry is None else _instant(entry[0])
        if satisfied(rule.constraints, now, now, last, connected[row]):
            wanted.append(row)
            if rule.period is not None:
                memory.notify(subscription, time, rule.period)
    return np.array(wanted, np.int64)


@lru_cache(maxsize=65_536)
def read_rule(text: str, tz: str) -> Rule:
    """Subscriptions often share their constraints, and come again with every batch."""
    constraints = decode_constraints(text, tz)
    frequency = frequency_of(constraints)
    return Rule(constraints, None if frequency is None else frequency.period // _MICROSECOND)


def _rules(rows: pa.Table, terms: Terms) -> list[Rule]:
    return [read_rule(text, terms.tz) for text in rows["constraints"].to_pylist()]


def judged_times(rows: pa.Table) -> Longs:
    """When each event is judged: at its own time, or else when it was matched."""
    times = pc.coalesce(rows["event_time"], rows["matched_at"])
    if times.null_count:
        row = pc.index(times.is_null(), True).as_py()
        raise PipelineError(f"event {rows['event_id'][row].as_py()!r} has neither event_time nor matched_at")
    micros = times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
    clipped: Longs = np.clip(micros, _FIRST, _LAST)
    return clipped


def _connected(rows: pa.Table, terms: Terms) -> list[bool]:
    if "connected" not in rows.column_names:
        return [terms.connected] * len(rows)
    return [terms.connected if one is None else one for one in rows["connected"].to_pylist()]


def _instant(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
