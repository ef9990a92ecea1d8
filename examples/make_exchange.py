"""A made-up stock exchange of any size: standing interests as NDJSON, quotes as Parquet.

    python examples/make_exchange.py exchange --subscriptions 1000000 --events 1000000

A few symbols are traded and watched far more than the others. Each subscription asks for a symbol and a range of
prices; three in ten also ask for a volume, and one in a hundred wants at most one notification in five minutes.
The same numbers give the same files.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SYMBOLS = 2000
FILES = 8


def make_subscriptions(path: Path, count: int) -> None:
    drawn = np.random.default_rng(1)
    symbols = (SYMBOLS * drawn.random(count) ** 3).astype(int).tolist()
    lows = drawn.integers(0, 9_800, count).tolist()
    widths = drawn.integers(10, 200, count).tolist()
    volumes = (drawn.integers(0, 10, count) * 1000).tolist()
    kinds = drawn.random(count).tolist()
    with path.open("w") as file:
        for n, (symbol, low, width, volume, kind) in enumerate(zip(symbols, lows, widths, volumes, kinds, strict=True)):
            text = f'Stock == "S{symbol:04d}" and Price between {low / 100} and {(low + width) / 100}'
            record: dict[str, object] = {"id": f"s-{n}", "type": "quote", "owner": f"sip:user{n % 50_000}@example.com"}
            record["filter"] = f"{text} and Volume >= {volume}" if kind < 0.3 else text
            if kind > 0.99:
                record["constraints"] = [{"kind": "frequency", "amount": 5, "unit": "minutes"}]
            file.write(json.dumps(record) + "\n")


def make_events(folder: Path, count: int) -> None:
    folder.mkdir(exist_ok=True)
    drawn = np.random.default_rng(2)
    names = pa.array([f"S{n:04d}" for n in range(SYMBOLS)])
    start = np.datetime64("2026-11-16T10:00:00", "us")
    for number, rows in enumerate(np.array_split(np.arange(count), FILES)):
        table = pa.table(
            {
                "id": pa.array([f"e-{n}" for n in rows.tolist()]),
                "type": pa.array(["quote"] * len(rows)),
                "time": pa.array(start + rows * 10_000, pa.timestamp("us", "UTC")),
                "Stock": names.take(pa.array((SYMBOLS * drawn.random(len(rows)) ** 3).astype(int))),
                "Price": np.round(drawn.random(len(rows)) * 100, 2),
                "Volume": drawn.integers(0, 10_000, len(rows)),
            }
        )
        pq.write_table(table, folder / f"part-{number:05d}.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=10_000)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    make_subscriptions(chosen.folder / "subscriptions.ndjson", chosen.subscriptions)
    make_events(chosen.folder / "events", chosen.events)
    print(f"{chosen.subscriptions:,} subscriptions and {chosen.events:,} events in {chosen.folder}")


if __name__ == "__main__":
    main()
