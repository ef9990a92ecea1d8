"""kill -9 of real writers under load: nothing that was acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from recado.store.log import LogReader, SqliteEventLog
from store.log.logs import contents

PROGRAM = Path(__file__).with_name("killed.py")


def killed_rounds(path: Path, rounds: int, seed: int):
    command = [sys.executable, str(PROGRAM), str(path), str(rounds), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        for line in program.stdout:
            yield json.loads(line)
    assert program.returncode == 0


def check_rounds(path: Path, rounds: int, seed: int) -> dict[int, str]:
    acknowledged: dict[int, str] = {}
    for round in killed_rounds(path, rounds, seed):
        for first, ids in round:
            for position, id in enumerate(ids, first):
                assert position not in acknowledged
                acknowledged[position] = id
    stored = {position: event.id for position, event in contents(path).items()}
    lost = {position for position, id in acknowledged.items() if stored.get(position) != id}
    duplicated = len(stored) - len(set(stored.values()))
    assert (len(lost), duplicated) == (0, 0)
    assert list(stored) == list(range(len(stored)))
    assert LogReader(path).check() == []
    with SqliteEventLog.open(path) as log:
        assert log.end == len(stored)
    return acknowledged


def test_killed_writers_lose_nothing(tmp_path):
    """On a busy machine the writers may be killed before they seal anything; then others are."""
    for seed in range(1, 6):
        log = tmp_path / f"log-{seed}"
        assert len(check_rounds(log, rounds=12, seed=seed)) > 12
        if LogReader(log).segments():
            break
    else:
        pytest.fail("no writer came as far as a segment")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_many_killed_writers_lose_nothing(tmp_path, seed):
    check_rounds(tmp_path / "log", rounds=250, seed=seed)
