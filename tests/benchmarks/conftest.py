"""What the tests of benchmarks share: a benchmark collects garbage before each of its figures, which takes long where
other tests have left much in memory. What was there before a module of theirs is kept out of that."""

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def only_own_garbage() -> Iterator[None]:
    gc.freeze()
    yield
    gc.unfreeze()
