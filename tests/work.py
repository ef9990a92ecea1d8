"""How much work a call is, counted and not timed, so that a busy machine changes nothing.

``calls_of`` counts the calls of functions, Python's and C's. What C code does inside one call is not seen: where that
could be endless, a test has a timeout that only something endless meets.
"""

import sys
from collections.abc import Callable
from typing import Any


def calls_of(action: Callable[[], Any]) -> int:
    """The calls that ``action`` makes; what it raises comes through ``pytest.raises`` inside it."""
    count = 0

    def profile(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count
