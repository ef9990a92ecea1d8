"""Whatever filters people write, patterns and regular expressions included, covering and merging lose no event."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.baselines.common import Oracle, delivered
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.baselines import make_baseline
from recado.protocols.topology import parse_edges
from recado.sim.system import System
from strategies import attributes, filters

OVERLAY = parse_edges("A-B B-C C-D B-E D-A")


@pytest.mark.parametrize("name", ["identity", "covering", "merging", "merging-imperfect", "hermes", "virtual-groups"])
@settings(max_examples=35)
@given(
    wanted=st.lists(st.tuples(st.sampled_from("ABCDE"), filters(max_leaves=5, sql=True)), min_size=1, max_size=6),
    seen=st.lists(attributes(), min_size=1, max_size=4),
    leaving=st.integers(0, 5),
)
def test_nothing_is_lost_before_and_after_some_leave(name, wanted, seen, leaving):
    options = {"limit": 2} if name == "merging-imperfect" else {}
    system, oracle = System(OVERLAY, make_baseline(name, OVERLAY, **options)), Oracle()
    system.become_publisher("C", "t")
    for number, (node, filter) in enumerate(wanted):
        subscription = Subscription(f"s{number}", filter, "t")
        system.subscribe(node, subscription)
        oracle.held[subscription.id] = (node, subscription)
    events = [Event(f"e{number}", "t", attributes=values) for number, values in enumerate(seen)]
    check(system, oracle, events)
    for id in list(oracle.held)[:leaving]:
        system.unsubscribe(oracle.held.pop(id)[0], id)
    check(system, oracle, events)


def check(system, oracle, events):
    for event in events:
        system.publish("C", event)
        assert delivered(system) == oracle.expected(event)
