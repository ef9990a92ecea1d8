"""SimPy, the simulator that Python users know: the same tokens as processes and stores, if it is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from benchmarks.sim.cases import JUMP

SIMPY = "simpy"


def simpy_installed() -> bool:
    return find_spec(SIMPY) is not None


def simpy_tokens(nodes: int, time: float = 1.0) -> Callable[[], int]:
    """Each node is a process that waits for its store and puts the token into the next one's, a time unit later."""
    simpy: Any = import_module(SIMPY)
    environment = simpy.Environment()
    stores = [simpy.Store(environment) for _ in range(nodes)]
    steps = 0

    def hand_on(token: Any, store: Any) -> Any:
        yield environment.timeout(1.0)
        store.put(token)

    def live(mine: Any, next: Any) -> Any:
        nonlocal steps
        environment.process(hand_on("token", next))
        while True:
            token = yield mine.get()
            steps += 1
            environment.process(hand_on(token, next))

    for node, store in enumerate(stores):
        environment.process(live(store, stores[(node * JUMP + 1) % nodes]))

    def advance() -> int:
        before = steps
        environment.run(until=environment.now + time)
        return steps - before

    return advance
