"""What prepares kernels prepares all of them, for all types that the program calls them with."""

from __future__ import annotations

import subprocess
import sys

ALL = """
from recado.matching.exercise import exercise, not_compiled
from recado.matching.kernels.jit import KERNELS

exercise()
assert not not_compiled(), not_compiled()
known = {kernel: set(kernel.overloads) for kernel in KERNELS}

from importlib.resources import files
from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.semantics.matcher import SemanticMatcher

sample = files("recado") / "data" / "sample"
subscriptions = list(map(read_subscription, (sample / "subscriptions.ndjson").read_bytes().splitlines()))
events = list(map(read_event, (sample / "events.ndjson").read_bytes().splitlines()))
matcher = SemanticMatcher()
matcher.add_many(subscriptions)
matcher.match_many(events)
for event in events[:200]:
    matcher.match(event)
for subscription in subscriptions:
    matcher.remove(subscription.id)

from recado.cli import engines
from recado.cli.app import main

engines.PLAIN_PAIRS = 0
for engine in ("index", "batch"):
    paths = [str(sample / name) for name in ("subscriptions.ndjson", "events.ndjson")]
    assert main(["match", *paths, "--engine", engine, "--quiet"]) == 0

more = {kernel.py_func.__name__: set(kernel.overloads) - known[kernel] for kernel in KERNELS}
assert not any(more.values()), more
"""


def test_after_it_nothing_is_left_to_compile():
    done = subprocess.run([sys.executable, "-c", ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
