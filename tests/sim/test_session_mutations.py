"""Planted bugs: each must be found by the checks of the troubled sessions, within the seeds of the default run.

What runs are the real machines with one error in them; without errors they pass the same seeds in
``test_session_faults``.
"""

import pytest

from planted import mutate
from recado.broker.core import Desk, Exchange
from recado.errors import RecadoError
from recado.protocols.rudp.connection import Receiver, Sender
from recado.protocols.session import agent as agent_link
from recado.protocols.session import renewal as agent_care
from recado.protocols.session.state import Inbox
from recado.sim.mobility import broker, keeping
from sim.session_world import life
from sim.test_session_faults import SEEDS

MUTATIONS = {
    "a lost leg counts as having confirmed": (
        Exchange._detach,
        "link.flying.clear()",
        "[self._done(note) for note in link.flying if note.state == WAITING]",
    ),
    "an acknowledgement confirms everything": (Exchange.acked, "flying[0].nid <= upto", "True"),
    "what waits is not kept": (Exchange.put, "self.changes.notes.append(note)", "pass"),
    "an expired subscription still gets events": (Desk._notify, "if standing.expires_at <= at:", "if False:"),
    "a new subscription misses an event": (Desk.subscribe, "since=position,", "since=position + 1,"),
    "notifications of one user are numbered alike": (Desk._ordinal, "if number not in user.ordinals", "if number == 1"),
    "events are not dispatched again after a crash": (
        broker.Broker._start,
        'range(self._kept["dispatched"], len(self.log))',
        "range(0)",
    ),
    "an event is acknowledged before it is kept": (
        broker.Broker._published,
        'self._out.append(Persist(f"log:{position}", self.log[position]))',
        "pass",
    ),
    "an event that is published again is stored again": (broker.Broker._published, "is not None", "is False"),
    "subscriptions are forgotten in a crash": (keeping._set, "table[key] = value", "pass"),
    "repeats reach the application": (Inbox.came, "if not self._nids.add(nid):", "if False:"),
    "what was not answered is not sent again": (agent_care.greet_table, "a.sends.extend(waiting)", "pass"),
    "the agent does not dial again": (agent_link.link_down, 'a.set_timer("dial", wait)', "pass"),
    "silence is not noticed": (agent_link.silence, 'a.ask(m.Ping(a.outbox.number()), Own("ping"))', "a.pinged = False"),
    "a repeated packet is delivered again": (
        Receiver._seen_before,
        "return []",
        'return [b\'{"type":"OK","req":1}\']',
    ),
    "packets are delivered as they come": (Receiver.take, "if ahead:", "if False:"),
    "a message counts as acknowledged with any packet": (Sender._settle, "not self._unsettled[0].unacked", "True"),
    "a session update does not reach RUDP": (Sender.move, "self.address = address", "pass"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_bug_is_found(name, monkeypatch):
    mutate(monkeypatch, *MUTATIONS[name])
    for seed in SEEDS:
        try:
            life(seed)
        except (AssertionError, RecadoError, KeyError, IndexError, TypeError):
            return
    pytest.fail(f"{name}: nobody noticed in {len(SEEDS)} seeds")
