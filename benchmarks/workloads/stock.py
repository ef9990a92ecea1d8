"""*stock*: equality on a Zipf symbol, a range of prices and a range of volumes.

Subscribers and the market like the same symbols (Zipf, exponent 1, 5,000 symbols), so an event's symbol alone leaves
two percent of all subscriptions as candidates. A symbol has a base price between 5 and 500; quotes and the middles of
the price ranges scatter around it by 10%, a range is 0.5 to 3% wide. Volumes are log-normal, a range spans a factor of
1.2 to 2.7.

``Growth`` is the same with uniform symbols, 200 subscriptions for each whatever the size: matches and candidates an
event stay equal from a thousand subscriptions to a million, so any growth of the cost is the index's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from string import ascii_uppercase
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Floats, Ints, Workload, draw, strings, zipf_weights
from recado.model.filter import And, Between, Compare, Filter

SCATTER = 0.10
PRICE_WIDTH = (0.005, 0.03)
VOLUME_LOG_MEAN, VOLUME_LOG_SIGMA = 9.0, 1.0
VOLUME_LOG_WIDTH = (0.2, 1.0)


class Stock(Workload, frozen=True, kw_only=True):
    name: ClassVar[str] = "stock"
    symbols: int = 5_000
    exponent: float = 1.0

    def filters(self, rng: np.random.Generator, count: int) -> Iterator[Filter]:
        symbols, middles = self._quotes(rng, count)
        widths = self._base_prices()[symbols] * rng.uniform(*PRICE_WIDTH, count)
        low, high = np.round(middles - widths / 2, 2), np.round(middles + widths / 2, 2)
        volume, half = _log_volumes(rng, count), rng.uniform(*VOLUME_LOG_WIDTH, count) / 2
        least, most = np.exp(volume - half).astype(np.int64), np.exp(volume + half).astype(np.int64)
        names = symbol_names(self.symbols)
        columns = (symbols.tolist(), low.tolist(), high.tolist(), least.tolist(), most.tolist())
        for symbol, price_low, price_high, volume_low, volume_high in zip(*columns, strict=True):
            yield And(
                (
                    Compare("Symbol", "==", names[symbol]),
                    Between("Price", price_low, price_high),
                    Between("Volume", volume_low, volume_high),
                )
            )

    def events(self, count: int) -> pa.RecordBatch:
        rng = self.event_rng()
        symbols, prices = self._quotes(rng, count)
        volumes = np.exp(_log_volumes(rng, count)).astype(np.int64)
        return pa.RecordBatch.from_pydict(
            {"Symbol": strings(symbol_names(self.symbols), symbols), "Price": np.round(prices, 2), "Volume": volumes}
        )

    def _quotes(self, rng: np.random.Generator, count: int) -> tuple[Ints, Floats]:
        symbols = draw(rng, zipf_weights(self.symbols, self.exponent), count)
        return symbols, self._base_prices()[symbols] * np.exp(rng.normal(0, SCATTER, count))

    def _base_prices(self) -> Floats:
        return 5 * 100 ** self.shared_rng().random(self.symbols)


class Growth(Stock, frozen=True, kw_only=True):
    name: ClassVar[str] = "growth"


SUBSCRIPTIONS_PER_SYMBOL = 200


def growth(size: int, seed: int = 1) -> Growth:
    """The workload of the growth curve at one size."""
    return Growth(size=size, seed=seed, symbols=max(1, size // SUBSCRIPTIONS_PER_SYMBOL), exponent=0.0)


@lru_cache
def symbol_names(count: int) -> tuple[str, ...]:
    """Four letters and a digit each, all different."""
    return tuple(_symbol_name(number) for number in range(count))


def _symbol_name(number: int) -> str:
    series, place = divmod(number, 26**4)
    code = place * 7_919 % 26**4  # has no factor in common with 26, so every place gets letters of its own
    letters = "".join(ascii_uppercase[code // 26**digit % 26] for digit in range(4))
    return f"{letters}{series + 3}"


def _log_volumes(rng: np.random.Generator, count: int) -> Floats:
    return rng.normal(VOLUME_LOG_MEAN, VOLUME_LOG_SIGMA, count)
