"""Compile the kernels before the first test, so that the minute this takes the first time counts against none."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from recado.matching.batch import match_batch
from recado.matching.index import Index
from recado.model.event import Event
from recado.model.filter import And, Compare, Text
from recado.model.subscription import Subscription


def pytest_collection_finish(session: pytest.Session) -> None:
    ours = any(Path(__file__).parent in item.path.parents for item in session.items)
    if ours and not session.config.option.collectonly:
        with suppress(Exception):  # the tests will tell better what is wrong
            _use_everything()


def _use_everything() -> None:
    index = Index()
    index.add_many(
        [
            Subscription("a", And((Compare("x", ">", 1), Compare("y", "==", "a")))),
            Subscription("b", Text("y", "like", "a*")),
        ]
    )
    index.match(Event("e", attributes={"x": 2**53 + 1, "y": "ab"}))
    match_batch(index, pa.RecordBatch.from_pydict({"x": [1, 2**53 + 1], "y": ["a", "b"]})).ids(index)
    match_batch(index, pa.RecordBatch.from_pydict({"x": [1, 2], "y": ["a", "b"]}))
    index.remove("a")
