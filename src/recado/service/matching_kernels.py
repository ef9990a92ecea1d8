"""The compiled kernels of a service that has begun without them.

A service matches by evaluating filters one by one at first: so it serves its first subscription at once, on a machine
that has never compiled anything, too. Meanwhile the kernels are compiled, if they are not on disk, in another process
that lets this one go first; then they are loaded in a thread, and the matcher takes them.

Where many subscriptions are stored, evaluating them one by one would take longer than compiling; such a service
loads, and is not ready, until the kernels are there.
"""

from __future__ import annotations

import asyncio
import logging

from recado.kernels import Build, prepare
from recado.matching.cache import can_write, is_prepared
from recado.service.matching import Matcher

PLAIN_SUBSCRIPTIONS = 1_000
"""More stored subscriptions than these wait for the kernels."""
FIRST_ANSWERS_SECONDS = 1.0
"""The first answers of a service that has just begun go before the kernels."""
POLL_SECONDS = 0.1
_log = logging.getLogger("recado.service")


async def take_kernels(matcher: Matcher) -> None:
    """Have the kernels compiled and loaded while the service runs, and let the matcher take them."""
    if matcher.is_compiled:
        return
    try:
        await asyncio.sleep(FIRST_ANSWERS_SECONDS)
        seconds = 0.0 if is_prepared() or not can_write() else await _compiled()
        await asyncio.to_thread(matcher.load_kernels)
        matcher.compile()
    except Exception:  # noqa: BLE001  # matching goes on without them
        _log.exception("the kernels of the index cannot be used; filters are evaluated one by one, which is slower")
        return
    how = f"were compiled in {seconds:.0f} s" if seconds else "are loaded"
    _log.info("the kernels of the index %s, and match %d subscriptions from here on", how, len(matcher))


async def _compiled() -> float:
    """How many seconds it took."""
    _log.info("the kernels of the index are being compiled, once for this machine; filters are evaluated meanwhile")
    build = Build(background=True)
    try:
        while build.is_running:
            await asyncio.sleep(POLL_SECONDS)
        if build.fault:
            _log.warning("another process could not compile the kernels (%s); this one does", build.fault)
        return build.seconds
    finally:
        build.stop()


def wait_for_kernels(matcher: Matcher) -> None:
    """In a thread, before many subscriptions are added."""
    if not is_prepared() and can_write():
        _log.info("the kernels of the index are being compiled, once for this machine; the service waits for them")
        prepare()
    matcher.load_kernels()
    matcher.compile()
