"""Precision, recall and F of deliveries, over pairs and over subscriptions (4.2 of the semantics document, A-14).

*Micro* counts all judged pairs together. *Macro* takes the mean over subscriptions, of the precision of those that were
sent anything and of the recall of those that expect anything; its F is that of the two means, as in the published
tables. Where nothing is sent, precision is 0 there, and so it is here. All are percentages.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt


class Quality(msgspec.Struct, frozen=True):
    precision: float
    recall: float

    @property
    def f(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


class Counts(msgspec.Struct, frozen=True):
    """Of one subscription: sent and relevant, sent only, relevant only."""

    tp: int
    fp: int
    fn: int


def counts(sent: npt.NDArray[np.bool_], relevant: npt.NDArray[np.bool_]) -> Counts:
    """Over the judged events of a subscription."""
    tp = int((sent & relevant).sum())
    return Counts(tp, int(sent.sum()) - tp, int(relevant.sum()) - tp)


def micro(found: Sequence[Counts]) -> Quality:
    tp, fp, fn = (sum(getattr(one, name) for one in found) for name in ("tp", "fp", "fn"))
    return Quality(_share(tp, fp), _share(tp, fn))


def macro(found: Sequence[Counts]) -> Quality:
    precisions = [_share(one.tp, one.fp) for one in found if one.tp + one.fp]
    recalls = [_share(one.tp, one.fn) for one in found if one.tp + one.fn]
    return Quality(_mean(precisions), _mean(recalls))


def _share(part: int, rest: int) -> float:
    return 100 * part / (part + rest) if part + rest else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
