"""A program that kills writers: it forks one, lets it append and seal under load, and kills it at a random moment.

``python killed.py <folder> <rounds> <seed>`` prints one JSON line for each round: the positions that the writer
acknowledged and the ids it gave them. It imports once and forks often, so that a round costs little.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

from recado.model.event import Event
from recado.store.log import LogSettings, SqliteEventLog

SETTINGS = LogSettings(segment_rows=60, group_rows=20)


def write(folder: str, name: str, acknowledge: int, seed: int) -> None:
    """Append for ever: every other round by one thread, every other by four in turn; a thread seals."""
    rng = random.Random(seed)
    with SqliteEventLog.open(folder, SETTINGS) as log:
        threading.Thread(target=keep_sealing, args=(log,), daemon=True).start()
        if seed % 2:
            append(log.append, name, acknowledge, rng)
        turn = threading.Lock()
        for number in range(4):
            arguments = (partial(append_in_turn, turn, log), f"{name}.{number}", acknowledge, rng)
            threading.Thread(target=append, args=arguments, daemon=True).start()
        time.sleep(60)


def append_in_turn(turn: threading.Lock, log: SqliteEventLog, events: list[Event]) -> range:
    with turn:
        return log.append(events)


def append(store, name: str, acknowledge: int, rng: random.Random) -> None:
    number = 0
    while True:
        ids = [f"{name}-{number + offset}" for offset in range(rng.choice((1, 1, 3, 10)))]
        number += len(ids)
        stored = store([Event(id, "t", attributes={"text": "x" * rng.choice((1, 500))}) for id in ids])
        os.write(acknowledge, (json.dumps([stored.start, ids]) + "\n").encode())


def keep_sealing(log: SqliteEventLog) -> None:
    while True:
        log.seal()


def wait_for_a_segment(folder: str) -> None:
    """Until one has just got its name, so that the manifest or the deletion in the tail is what comes next."""
    before = set(Path(folder).glob("segments/*.parquet"))
    while not set(Path(folder).glob("segments/*.parquet")) - before:
        time.sleep(0.001)


def run(folder: str, round: int, rng: random.Random) -> list[object]:
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        write(folder, f"r{round}", said, rng.randrange(10**6) * 2 + round % 2)
    os.close(said)
    with os.fdopen(heard, "rb") as acknowledgements:
        first = acknowledgements.readline()  # it is at work
        if round % 3 == 2:
            wait_for_a_segment(folder)
        time.sleep(rng.uniform(0, 0.05 if round % 3 else 0.3))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        lines = (first + acknowledgements.read()).split(b"\n")
    return [json.loads(line) for line in lines[:-1]]


if __name__ == "__main__":
    folder, rounds, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    for round in range(rounds):
        print(json.dumps(run(folder, round, rng)), flush=True)
