"""Compare with ns-2 and ns-3, print the figures, keep them for the report: python -m experiments.sensornetwork.peers.

Exit code 1 if neither is installed, or if any figure is further apart than the specification allows.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from experiments.sensornetwork.peers import ns2, ns3
from experiments.sensornetwork.peers.compare import (
    FOUND,
    PAMPA_SIDES,
    SIDES,
    Comparison,
    compare_broadcasts,
    compare_routes_with_ns2,
    compare_routes_with_ns3,
)
from recado import files


def main() -> int:
    found: list[Comparison] = []
    with tempfile.TemporaryDirectory() as name:
        for one in _compare_all(Path(name)):
            found.append(one)
            verdict = "" if one.limit is None else f", {'within' if one.holds else 'NOT WITHIN'} {one.limit:.0%}"
            sys.stdout.write(
                f"{one.what}, {one.figure}: {one.peer} {one.theirs:,.4g}, csma {one.mine:,.4g} ({one.apart:+.1%}"
                f"{verdict}), ideal {one.ideal:,.4g}\n"
            )
            sys.stdout.flush()
    if not found:
        return 1
    if ns2.find_ns2() is not None and ns3.find_ns3() is not None:
        files.replace(FOUND, msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    return 0 if all(one.holds for one in found) else 1


def _compare_all(folder: Path) -> Iterator[Comparison]:
    if ns3.find_ns3() is None:
        sys.stderr.write(f"ns-3 is not installed: apt-get install {ns3.PACKAGES}\n")
    else:
        program = ns3.build(folder)
        for side in SIDES:
            yield from compare_routes_with_ns3(side, program)
    if ns2.find_ns2() is None:
        sys.stderr.write("ns-2 is not installed: apt-get install ns2\n")
        return
    for side in SIDES:
        for expiry in (False, True):
            yield from compare_routes_with_ns2(side, expiry, folder)
    for profile in ("prototype", "sparse"):
        for side in PAMPA_SIDES:
            yield from compare_broadcasts(profile, side, folder)


if __name__ == "__main__":
    sys.exit(main())
