"""How much of everything: the full plan and the quick one."""

from __future__ import annotations

import msgspec

from benchmarks.sim.cases import TOKENS, TREES


class Case(msgspec.Struct, frozen=True):
    protocol: str
    network: str
    nodes: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Each case is run ``runs`` times for about ``seconds`` each; queues of these sizes for ``rounds``."""

    cases: tuple[Case, ...]
    queues: tuple[int, ...] = (100, 20_000, 100_000)
    rounds: int = 200_000
    seconds: float
    runs: int


def full_plan() -> Plan:
    return Plan(cases=_cases((100, 1_000, 20_000), (100, 20_000)), seconds=1.5, runs=5)


def quick_plan() -> Plan:
    """The same sizes, for a shorter time."""
    return Plan(cases=_cases((100, 20_000), (100, 2_000)), queues=(100, 20_000), rounds=50_000, seconds=0.3, runs=2)


def _cases(token_sizes: tuple[int, ...], tree_sizes: tuple[int, ...]) -> tuple[Case, ...]:
    networks = ("unit delay", "random delays in order")
    tokens = [Case(TOKENS, network, nodes) for network in networks for nodes in token_sizes]
    return (*tokens, *(Case(TREES, "unit delay", nodes) for nodes in tree_sizes))
