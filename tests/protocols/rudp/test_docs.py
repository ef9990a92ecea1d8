"""The page about RUDP says what is true."""

import re
from pathlib import Path

import msgspec

from recado.protocols.rudp import PROFILES

PAGE = (Path(__file__).parents[3] / "docs" / "rudp.md").read_text(encoding="utf-8")


def test_the_table_of_profiles():
    rows = re.findall(r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", PAGE, re.MULTILINE)
    columns = [list(map(str, column)) for column in zip(*(row[1:] for row in rows), strict=True)]
    assert [row[0] for row in rows] == list(msgspec.structs.asdict(PROFILES["classic"]))
    for column, settings in zip(columns, PROFILES.values(), strict=True):
        assert column == [str(value) for value in msgspec.structs.astuple(settings)]


def test_the_tests_that_hold_the_promises_exist():
    places = re.findall(r"`(tests/[\w/.]+)`", PAGE)
    assert len(places) >= 5
    assert all((Path(__file__).parents[3] / place).exists() for place in places)
