"""One run again, step by step: what happened at a node, and how an event travelled.

A run is determined by its setting and its seed, so a run that went wrong in a sweep goes wrong again here.
"""

from __future__ import annotations

from collections.abc import Iterator

from recado.protocols.machine import Deliver, NodeId
from recado.protocols.topology import Topology
from recado.sim.runs.perform import Play, seed_of
from recado.sim.runs.scenario import Run
from recado.sim.runs.setting import ScenarioError
from recado.sim.trace import Trace


def replay(run: Run, node: str | None = None, event: str | None = None) -> Iterator[str]:
    """The steps of the node, those that speak of the event, or both; then why each delivery of the event happened."""
    trace = Trace()
    play = Play(run.setting, seed_of(run), trace)
    chosen = None if node is None else _node(play.system.topology, node)
    play.through()
    if event is not None and not any(event == found.event.id for found in play.workload.ledger.expectations):
        raise ScenarioError(f"no event {event!r} was published in this run; events are called e1, e2, …")
    yield from trace.lines(chosen, event)
    if event is not None:
        yield from _stories(trace, chosen, event)


def _stories(trace: Trace, node: NodeId | None, event: str) -> Iterator[str]:
    for step in trace.select(node, event):
        for effect in step.effects:
            if isinstance(effect, Deliver) and effect.notification.event.id == event:
                yield ""
                yield trace.story(step, effect)


def _node(topology: Topology, name: str) -> NodeId:
    """Generated networks number their nodes; the document's have letters."""
    for node in topology.nodes:
        if str(node) == name:
            return node
    raise ScenarioError(f"there is no node {name!r}; nodes are {topology.nodes[0]!r} to {topology.nodes[-1]!r}")
