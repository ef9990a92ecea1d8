"""What the benchmark finds out, as records: a line of NDJSON each, and the source of every table."""

from __future__ import annotations

import msgspec


class Rate(msgspec.Struct, frozen=True):
    """Events a second: the best and the middle one of several runs."""

    best: float
    median: float


class Record(msgspec.Struct, frozen=True, tag_field="record"):
    """Base of all records."""


class Machine(Record, frozen=True, tag="machine"):
    """Where the figures come from."""

    cpu: str
    cores: int
    memory_gb: float
    system: str
    python: str
    packages: dict[str, str]


class Matching(Record, frozen=True, tag="matching"):
    """Our engines on one workload.

    ``single`` gives sorted ids event by event, ``slots`` is the same with numbers in place of ids. ``batch`` gives
    pairs of numbers for record batches of ``batch_size`` events, ``batch_ids`` looks up the ids as well. ``bytes`` is
    the index's own account, ``process_bytes`` what the process grew by. ``checked`` matches were compared with the
    oracle's before.
    """

    case: str
    workload: str
    subscriptions: int
    checked: int
    matches_per_event: float
    candidates_per_event: float
    candidates_per_match: float
    build_seconds: float
    bytes: int
    process_bytes: int
    batch_size: int
    single: Rate
    slots: Rate
    batch: Rate
    batch_ids: Rate
    naive: Rate

    @property
    def bytes_per_subscription(self) -> float:
        return self.bytes / self.subscriptions

    @property
    def batch_gain(self) -> float:
        """Batch over single, like for like: ids with ids."""
        return self.batch_ids.best / self.single.best


class Peer(Record, frozen=True, tag="peer"):
    """A yardstick on the same workload in the same run; ``note`` says why it has no rate."""

    case: str
    workload: str
    subscriptions: int
    peer: str
    version: str
    rate: Rate | None = None
    single_ratio: float | None = None
    batch_ratio: float | None = None
    build_seconds: float | None = None
    bytes: int | None = None
    note: str = ""


class Updates(Record, frozen=True, tag="updates"):
    """Seconds for one insert and one delete, the middle one and the slowest of a hundred."""

    case: str
    subscriptions: int
    insert_p50: float
    insert_p99: float
    delete_p50: float
    delete_p99: float


class Load(Record, frozen=True, tag="load"):
    """Subscriptions from an NDJSON file into an index, parsing and checking included."""

    case: str
    subscriptions: int
    file_bytes: int
    seconds: float


class FromText(Record, frozen=True, tag="from text"):
    """Events as lines of JSON into pairs of numbers: through columns, and each line read as an event before.

    ``with_ids`` looks up the ids of events and subscriptions as well.
    """

    case: str
    subscriptions: int
    columns: Rate
    with_ids: Rate
    one_by_one: Rate


class Snapshot(Record, frozen=True, tag="snapshot"):
    """An index written to a file and mapped into memory again; ``first_match`` is the first event after that."""

    case: str
    subscriptions: int
    file_bytes: int
    save_seconds: float
    load_seconds: float
    first_match_seconds: float


class Churn(Record, frozen=True, tag="churn"):
    """Matching while subscriptions come and go in the same thread; rates include the time that the changes took."""

    case: str
    subscriptions: int
    changes_per_second: float
    single: float
    single_undisturbed: float
    batch: float
    batch_undisturbed: float

    @property
    def slowdown(self) -> float:
        return max(self.single_undisturbed / self.single, self.batch_undisturbed / self.batch)


class Target(Record, frozen=True, tag="target"):
    """One thing to reach: what it asks, what was measured, and whether it is met (None: not measured in this run)."""

    name: str
    required: str
    measured: str
    met: bool | None


AnyRecord = Machine | Matching | Peer | Updates | Load | FromText | Snapshot | Churn | Target
