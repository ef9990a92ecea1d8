"""A reader in another process, while the writer appends, seals and expires."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from recado.store.log import LogSettings, SqliteEventLog
from store.log.logs import events

PROGRAM = Path(__file__).with_name("following.py")


@pytest.mark.parametrize("expiring", [False, True])
def test_a_reader_in_another_process_misses_nothing(tmp_path, expiring):
    count = 1_000
    with SqliteEventLog.open(tmp_path / "log", LogSettings(segment_rows=100, group_rows=30)) as log:
        command = [sys.executable, str(PROGRAM), str(log.path), str(count)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout.readline() == "ready\n"
            for start in range(0, count, 20):
                log.append(events(start, start + 20))
                log.seal()
                if expiring:
                    log.retain(max_bytes=20_000)
            result = json.loads(reader.stdout.read())
    assert reader.returncode == 0
    assert result["wrong"] == 0
    assert result["rows"] + result["expired"] == count
    assert expiring or result["expired"] == 0
