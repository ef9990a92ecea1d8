"""Requests that make no sense, baselines that do not exist, messages as bytes, and the same run under any hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from random import Random

import pytest

from protocols.baselines.common import event, sub
from recado.model.event import Event
from recado.protocols.algebra import EVENTS, answers
from recado.protocols.baselines import BASELINES, MESSAGES, BaselineError, make_baseline
from recado.protocols.baselines.node import (
    Advertised,
    Announced,
    Flooded,
    Grouped,
    Interests,
    Raised,
    Routed,
    Unadvertised,
)
from recado.protocols.machine import Asked, LinkDown, LinkUp, Started, TimerFired
from recado.protocols.pubsub import BecomeBroker, BecomePublisher, Publish, Subscribe, Unsubscribe
from recado.protocols.topology import NET_13
from recado.protocols.wire import decoder, encode


def ask(machine, request):
    return machine.handle(Asked(request), 0.0, Random(0))


@pytest.mark.parametrize("name", BASELINES)
def test_requests_that_make_no_sense_change_nothing(name):
    machine = make_baseline(name, NET_13)("C")
    with pytest.raises(BaselineError, match="node 'C' does not publish events of type 'news'; ask it to become"):
        ask(machine, Publish(event("e")))
    with pytest.raises(BaselineError, match="node 'C' has no subscription 's' to cancel"):
        ask(machine, Unsubscribe("s"))
    with pytest.raises(BaselineError, match="node 'C' does not publish 'news', so it cannot stop"):
        ask(machine, BecomeBroker("news"))
    with pytest.raises(BaselineError, match="is no request of publish/subscribe"):
        ask(machine, "subscribe me")
    ask(machine, Subscribe(sub("s")))
    before = machine.inspect()
    with pytest.raises(BaselineError, match="node 'C' already has a subscription 's'"):
        ask(machine, Subscribe(sub("s", "x == 1")))
    assert machine.inspect() == before
    assert before["subscriptions"] == {"s": 'type == "news" and true'}


@pytest.mark.parametrize("name", BASELINES)
def test_a_publisher_is_one_until_it_stops(name):
    machine = make_baseline(name, NET_13)("C")
    ask(machine, BecomePublisher("news"))
    assert list(ask(machine, BecomePublisher("news"))) == []
    assert machine.inspect()["publishes"] == ["news"]
    ask(machine, Publish(event("e")))
    ask(machine, BecomeBroker("news"))
    with pytest.raises(BaselineError, match="does not publish"):
        ask(machine, Publish(event("e")))


@pytest.mark.parametrize("stimulus", [Started(("F",)), LinkUp("F"), LinkDown("F"), TimerFired("t")])
def test_what_happens_to_links_is_not_acted_upon(stimulus):
    machine = make_baseline("covering", NET_13)("C")
    assert list(machine.handle(stimulus, 0.0, Random(0))) == []


def test_baselines_and_options_that_do_not_exist():
    with pytest.raises(
        BaselineError, match=r"there is no baseline 'gossip'; there are flooding, flooding-tree, simple"
    ):
        make_baseline("gossip", NET_13)
    with pytest.raises(BaselineError, match="baseline 'covering' has no option 'limit'; it has root"):
        make_baseline("covering", NET_13, limit=3)
    with pytest.raises(BaselineError, match="there is no node 'Z' in this topology to be the root"):
        make_baseline("simple", NET_13, root="Z")
    with pytest.raises(
        BaselineError, match="a hierarchy has flooding, simple, identity, covering inside, not 'merging'"
    ):
        make_baseline("hierarchical", NET_13, inside="merging")
    with pytest.raises(BaselineError, match="at least 1 filter, not 0"):
        make_baseline("merging-imperfect", NET_13, limit=0)
    with pytest.raises(BaselineError, match="at least one node, not 0"):
        make_baseline("groups", NET_13, group_size=0)


def test_messages_survive_the_wire():
    full = Event("e", "news", "agency", datetime(2026, 1, 1, tzinfo=UTC), {"x": 1, "tags": ("a", "b"), "ok": True})
    read = decoder(MESSAGES)
    for message in (
        Interests((("s", "x == 1"),), ("t",), "news"),
        Routed(full),
        Flooded(full, "K", 3),
        Flooded(full, 7, 3),
        Announced("s", "x == 1", 0, 1),
        Advertised("news"),
        Unadvertised("news"),
        Raised(full),
        Grouped(full, "9f"),
    ):
        assert read(encode(message)) == message


def test_answers_are_kept_for_the_last_events_only():
    kept = [event(f"e{number}") for number in range(EVENTS + 1)]
    first = answers(kept[0])
    assert answers(kept[0]) is first
    for one in kept:
        answers(one)
    assert answers(kept[0]) is not first
    assert answers(kept[0])('type == "news"')


SCRIPT = """
from random import Random
from protocols.baselines.common import random_event, random_filter, recorded, sub
from recado.protocols.baselines import BASELINES
from recado.protocols.topology import NET_16
from hashlib import sha256
for name in BASELINES:
    rng = Random(7)
    system, sent = recorded(name, NET_16)
    for type in ("news", "flight"):
        system.become_publisher("F", type)
    for number in range(12):
        type = rng.choice(["news", "flight"])
        system.subscribe(rng.choice(NET_16.nodes), sub(f"s{number}", random_filter(rng), type))
        system.publish("F", random_event(rng, f"e{number}"))
    print(name, sha256(repr((sent, system.deliveries, system.inspect())).encode()).hexdigest())
"""


def test_a_run_does_not_depend_on_the_hash_seed():
    outputs = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(outputs[0].splitlines()) == len(BASELINES)
    assert outputs[0] == outputs[1]
