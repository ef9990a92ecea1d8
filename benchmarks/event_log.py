"""How fast the event log appends durably, seals and reads: ``python -m benchmarks.event_log [--folder DIR]``.

Every append returns after its fsync, so the figures are those of the disk under ``--folder``; the first line shows
what a bare write and fsync costs there. All measurements take turns, each on a log of its own, and the best of
``--rounds`` counts, so that what else the machine does disturbs less.
"""

import argparse
import os
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from recado.filters.syntax import parse_filter
from recado.model.event import Event
from recado.store.log import EventLog, LogReader

START = datetime(2026, 11, 15, 10, tzinfo=UTC)


def event(number):
    """An event of six attributes, about 140 bytes of JSON."""
    attributes = {"room": f"r-{number % 50}", "level": number % 1000, "ok": number % 7 != 0, "value": number * 0.25}
    return Event(f"e-{number}", "reading", f"/sensor/{number % 20}", START + timedelta(seconds=number), attributes)


def rate(seconds, work):
    """Calls of ``work`` for the time given; it returns how many events it dealt with."""
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        done += work()
    return done / spent


def bare_fsync(folder, seconds):
    with folder.open("wb", buffering=0) as file:

        def work():
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
            return 1

        return rate(seconds, work)


def appends(folder, seconds, group):
    with EventLog.open(folder) as log:

        def work():
            return len(log.append([event(log.end + offset) for offset in range(group)]))

        return rate(seconds, work)


def reading(folder, count):
    """Events a second for reading the tail, sealing it, and reading segments, plain and with filters."""
    rates = {}
    with EventLog.open(folder) as log:
        for start in range(0, count, 1_000):
            log.append([event(number) for number in range(start, start + 1_000)])
        rates["read the tail"] = scan(log.path, count)
        began = time.perf_counter()
        log.seal(force=True)
        rates["seal"] = count / (time.perf_counter() - began)
        rates["read segments"] = scan(log.path, count)
        rates["read segments where type == 'reading'"] = scan(log.path, count, parse_filter("type == 'reading'"))
        rates["read segments where level < 10"] = scan(log.path, count, parse_filter("level < 10"))
    return rates


def scan(path, count, where=None):
    began = time.perf_counter()
    for _ in LogReader(path).read(where=where):
        pass
    return count / (time.perf_counter() - began)


def measurements(folder, seconds, events):
    """Everything once."""
    rates = {
        "bare write and fsync, 4 KiB": bare_fsync(folder / "bare", seconds),
        "append, one by one": appends(folder / "single", seconds, 1),
        "append, groups of 100": appends(folder / "hundreds", seconds, 100),
        "append, groups of 1,000": appends(folder / "thousands", seconds, 1_000),
    }
    return rates | reading(folder / "reading", events)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="where the logs are made, and removed again")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement of a round")
    parser.add_argument("--events", type=int, default=100_000, help="to seal and read")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    best = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="event-log-", dir=options.folder) as folder:
            for name, value in measurements(Path(folder), options.seconds, options.events).items():
                best[name] = max(value, best.get(name, 0))
    print(f"{'':40} {'events/s':>12}")
    for name, value in best.items():
        print(f"{name:40} {value:12,.0f}")


if __name__ == "__main__":
    main()
