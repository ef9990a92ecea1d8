"""What the benchmark of the simulator finds out, as records: a line of NDJSON each, and the source of every table."""

from __future__ import annotations

from benchmarks.records import Machine, Rate, Record, Target


class Speed(Record, frozen=True, tag="speed"):
    """Steps a second of one protocol on a network of one size. A step is one stimulus that a machine handled.

    ``pending`` is how much was waiting in the simulation at the end.
    """

    protocol: str
    network: str
    nodes: int
    steps: int
    pending: int
    rate: Rate

    @property
    def microseconds(self) -> float:
        return 1e6 / self.rate.best


class Peer(Record, frozen=True, tag="peer"):
    """The same tokens on another simulator in the same run; ``note`` says why there is no rate."""

    peer: str
    version: str
    nodes: int
    rate: Rate | None = None
    ratio: float | None = None
    note: str = ""


class Queue(Record, frozen=True, tag="queue"):
    """Seconds to take the next of so many entries and put one back, from one plain heap and from the agenda."""

    entries: int
    heap_seconds: float
    agenda_seconds: float


AnyRecord = Machine | Speed | Peer | Queue | Target
"""All records of this benchmark."""
