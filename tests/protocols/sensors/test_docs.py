"""The page of the sensor network names every setting, with its default."""

import re
from pathlib import Path

from recado.protocols.sensors import SensorSettings

PAGE = Path(__file__).parents[3] / "docs" / "sensor-network.md"


def rows():
    section = PAGE.read_text(encoding="utf-8").split("## Settings")[1].split("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            names, default, _ = (cell.strip() for cell in line.strip("|").split("|"))
            yield re.findall(r"`(\w+)`", names), [part.strip(" `") for part in default.split(", ")]


def test_every_setting_is_described():
    named = [name for names, _ in rows() for name in names]
    assert sorted(named) == sorted(SensorSettings.__struct_fields__)


def test_defaults_are_told():
    usual = SensorSettings()
    for names, defaults in rows():
        for name, told in zip(names, defaults if len(defaults) == len(names) else defaults * len(names), strict=True):
            value = getattr(usual, name)
            if value is None:
                assert told in ("profile", "dbc", "from `hop_seconds", "from hop_seconds"), name
            elif isinstance(value, bool):
                assert told == str(value).lower(), name
            elif isinstance(value, str):
                assert told == value, name
            else:
                assert float(told) == value, name
