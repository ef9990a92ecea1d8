"""What a yardstick is: another way to match, given the same subscriptions and the same events as our engines.

There are two kinds. A *batch* yardstick takes an Arrow record batch and gives pairs (event number, subscription
number); an *event* yardstick takes one ``Event`` and gives subscription numbers. Numbers count subscriptions in the
order they were given. Every conversion that a yardstick needs, such as a dictionary code for a string, is part of its
matching and so of its time, as it is for our engines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recado.errors import RecadoError
from recado.model.event import Event
from recado.model.subscription import Subscription

Numbers = npt.NDArray[np.integer]


class UnsuitableError(RecadoError):
    """The yardstick cannot take this workload; the message says why."""


class EventYardstick(Protocol):
    """Matches event by event."""

    name: ClassVar[str]
    package: ClassVar[str]

    def build(self, subscriptions: Iterable[Subscription]) -> None: ...

    def match(self, event: Event) -> Sequence[int]: ...


class BatchYardstick(Protocol):
    """Matches a record batch at a time; ``batch_size`` is the one that suits it best, None if any does."""

    name: ClassVar[str]
    package: ClassVar[str]
    batch_size: ClassVar[int | None]

    def build(self, subscriptions: Iterable[Subscription]) -> None: ...

    def match_batch(self, batch: pa.RecordBatch) -> tuple[Numbers, Numbers]: ...

    def bytes_used(self) -> int: ...


Yardstick = EventYardstick | BatchYardstick
