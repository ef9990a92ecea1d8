"""Planted bugs: each must be found by the checks of the troubled sessions, within the seeds of the default run.

What runs are the real machines with one error in them; without errors they pass the same seeds in
``test_session_faults``.
"""

from datetime import timedelta

import pytest

from planted import mutate, replace
from recado.broker import dispatch, persistence, subscriptions
from recado.broker import stimuli as s
from recado.broker.core import HANDLERS
from recado.broker.dedup import SeenEvent, SeenEvents
from recado.broker.state import NEVER
from recado.errors import RecadoError
from recado.protocols.rudp.connection import Receiver, Sender
from recado.protocols.session import agent as agent_link
from recado.protocols.session import messages as m
from recado.protocols.session import renewal as agent_care
from recado.protocols.session.state import Inbox
from recado.sim.mobility.broker import BrokerNode
from recado.sim.mobility.disk import SimulatedLog, SimulatedStore
from sim.session_world import life
from sim.test_session_faults import SEEDS

# -- of the broker and its disk: what is planted is a faulty function in the place of the real one


def confirm_what_was_lost(monkeypatch):
    lose, acknowledge = HANDLERS[s.ConsumerLost], HANDLERS[s.Acknowledge]

    def wrong(state, event, now, out):
        acknowledge(state, s.Acknowledge(event.consumer, NEVER), now, out)
        lose(state, event, now, out)

    monkeypatch.setitem(HANDLERS, s.ConsumerLost, wrong)


def confirm_everything(monkeypatch):
    acknowledge = HANDLERS[s.Acknowledge]

    def wrong(state, event, now, out):
        acknowledge(state, s.Acknowledge(event.consumer, NEVER), now, out)

    monkeypatch.setitem(HANDLERS, s.Acknowledge, wrong)


def store_no_notifications(monkeypatch):
    replace(monkeypatch, persistence.add_notifications, lambda batch, changes: None)


def notify_after_expiry(monkeypatch):
    notify = dispatch.notify

    def wrong(state, subscription, position, event, now, touched, out):
        real, subscription.expires_at = subscription.expires_at, now + timedelta(days=1)
        try:
            return notify(state, subscription, position, event, now, touched, out)
        finally:
            subscription.expires_at = real

    monkeypatch.setattr(dispatch, "notify", wrong)


def miss_an_event(monkeypatch):
    subscribe = HANDLERS[s.Subscribe]

    def wrong(state, wish, now, out):
        late = s.Subscribe(
            wish.user,
            wish.id,
            wish.position + 1,
            wish.expires_at,
            wish.device,
            wish.scope,
            wish.constraints,
            wish.record,
        )
        subscribe(state, late, now, out)

    monkeypatch.setitem(HANDLERS, s.Subscribe, wrong)


def number_alike(monkeypatch):
    monkeypatch.setattr(subscriptions, "_next_ordinal", lambda user: 1)


def dispatch_nothing_again(monkeypatch):
    replace(monkeypatch, persistence.start_position, lambda loaded, first, end: (end, []))


def sync_nothing(monkeypatch):
    sync = SimulatedLog.sync
    monkeypatch.setattr(SimulatedLog, "sync", lambda log: (sync(log)[0], []))


def acknowledge_before_the_sync(monkeypatch):
    publish = BrokerNode._publish

    def wrong(node, call, req, raw, now):
        publish(node, call, req, raw, now)
        node._say(call, m.Ok(req, node.log.end), now)

    monkeypatch.setattr(BrokerNode, "_publish", wrong)


def store_again(monkeypatch):
    monkeypatch.setattr(SeenEvents, "look_up", lambda seen, user, ids, texts: ([SeenEvent(0) for _ in ids], set()))


def forget_subscriptions(monkeypatch):
    replace(monkeypatch, persistence.read_subscriptions, lambda loaded, time_zone="UTC": [])


def store_nothing(monkeypatch):
    monkeypatch.setattr(SimulatedStore, "write", lambda store, batch: None)


PLANTED = {
    "a lost consumer counts as having confirmed": confirm_what_was_lost,
    "an acknowledgement confirms everything": confirm_everything,
    "what waits is not stored": store_no_notifications,
    "an expired subscription still gets events": notify_after_expiry,
    "a new subscription misses an event": miss_an_event,
    "notifications of one user are numbered alike": number_alike,
    "events are not dispatched again after a crash": dispatch_nothing_again,
    "the log is never synced": sync_nothing,
    "an event is acknowledged before it is synced": acknowledge_before_the_sync,
    "an event that is published again is stored again": store_again,
    "subscriptions are forgotten in a crash": forget_subscriptions,
    "the state is never written": store_nothing,
}

# -- of the agent and of RUDP

MUTATIONS = {
    "repeats reach the application": (Inbox.add, "if not self._nids.add(nid):", "if False:"),
    "what was not answered is not sent again": (agent_care.greet_table, "a.sends.extend(waiting)", "pass"),
    "the agent does not dial again": (agent_link.link_down, 'a.set_timer("dial", wait)', "pass"),
    "silence is not noticed": (
        agent_link.silence,
        'a.ask(m.Ping(a.outbox.number()), AgentRequest("ping"))',
        "a.pinged = False",
    ),
    "a repeated packet is delivered again": (
        Receiver._seen_before,
        "return []",
        'return [b\'{"type":"OK","req":1}\']',
    ),
    "packets are delivered as they come": (Receiver.take, "if ahead:", "if False:"),
    "a message counts as acknowledged with any packet": (Sender._settle, "not self._unsettled[0].unacked", "True"),
    "a session update does not reach RUDP": (Sender.move, "self.address = address", "pass"),
}


@pytest.mark.parametrize("name", [*PLANTED, *MUTATIONS])
def test_a_planted_bug_is_found(name, monkeypatch):
    if name in PLANTED:
        PLANTED[name](monkeypatch)
    else:
        mutate(monkeypatch, *MUTATIONS[name])
    for seed in SEEDS:
        try:
            life(seed)
        except (AssertionError, RecadoError, KeyError, IndexError, TypeError, RuntimeError):
            return
    pytest.fail(f"{name}: nobody noticed in {len(SEEDS)} seeds")
