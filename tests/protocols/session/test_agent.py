"""The agent, step by step: what it does about each thing that can happen to it."""

from random import Random

import msgspec
import pytest

from protocols.session.world import TTL, Broker, World, at
from recado.model.memory import RecentKeys
from recado.protocols import machine
from recado.protocols.session import commands as words
from recado.protocols.session import messages as m
from recado.protocols.session.agent import Agent
from recado.protocols.session.commands import AgentError, AgentSettings
from recado.protocols.session.state import Inbox

EVENT = msgspec.Raw(b'{"id":"e-1"}')


def world(start=True, seed=1, **settings):
    made = World(Agent(AgentSettings(**{"silence_seconds": 0, **settings})), Broker(), Random(seed))
    if start:
        made.start()
        made.run(1.0)
    return made


def sent(effects):
    return [message for effect in effects if isinstance(effect, machine.Send) for message in effect.message]


def step(agent, stimulus, now=0.0):
    return list(agent.handle(stimulus, now, Random(1)))


def test_the_first_connection():
    agent = Agent(AgentSettings(device="phone", token="secret", window=5))
    assert step(agent, machine.Started()) == [machine.Report(words.Dial(1))]
    assert sent(step(agent, machine.LinkUp("service"))) == [m.Hello("phone", "secret", None, 5)]
    assert agent.status == "DISCONNECTED", "not before WELCOME"
    effects = step(agent, machine.Received("service", [m.Welcome("ana", "phone", 3)]))
    assert [type(one) for one in sent(effects)] == [m.QuerySubs]
    assert agent.status == "CONNECTED"
    assert agent.session.window == 3
    assert agent.inspect()["state"] == "connected"


def test_recover_takes_over_what_the_service_holds():
    made = world(start=False)
    made.broker.subs = {"old": 500.0}
    made.start()
    made.run(1.0)
    assert made.heard(words.Started) == [words.Started(("old",))]
    assert made.agent.inspect()["subscriptions"] == {"old": at(500.0)}
    made.run(450.0)
    assert made.broker.renewals, "it is renewed like one's own"


def test_discard_starts_empty():
    made = world(start=False, existing="discard")
    made.broker.subs = {"old": 500.0}
    made.ask(words.MakeSubscription({"id": "new"}, "sub"))
    made.start()
    made.run(1.0)
    assert list(made.broker.subs) == ["new"], "what was asked for meanwhile comes after the start"
    assert made.heard(words.Started) == [words.Started(())]


def test_leave_looks_after_its_own_only():
    made = world(start=False, existing="leave")
    made.broker.subs = {"old": 500.0}
    made.start()
    made.ask(words.MakeSubscription({"id": "mine"}, "sub"))
    made.run(1.0)
    made.cut()
    made.run(10.0)
    assert list(made.agent.session.table.subscriptions) == ["mine"]
    assert made.broker.queries == 1, "asked on the second connection"


def test_a_subscription_for_another_device_is_left_to_it():
    agent = Agent(AgentSettings(device="phone"))
    step(agent, machine.Started())
    step(agent, machine.LinkUp("service"))
    (query,) = sent(step(agent, machine.Received("service", [m.Welcome("ana", "phone", 3)])))
    subs = tuple(
        {"id": name, "expires_at": at(9.0), "scope": "this device", "device": name} for name in ("phone", "laptop")
    )
    step(agent, machine.Received("service", [m.Subs(query.req, subs)]))
    assert list(agent.session.table.subscriptions) == ["phone"]


def test_renewal_at_four_fifths_of_the_lifetime():
    made = world()
    made.ask(words.MakeSubscription({"id": "s", "ttl": 100}, "sub"))
    made.run(80.9)
    assert made.broker.renewals == 0
    made.run(81.5)
    assert made.broker.renewals == 1
    assert made.heard(words.Renewed)
    made.run(1000.0)
    assert made.broker.renewals == 12
    assert "s" in made.broker.subs


def test_one_with_an_end_is_not_renewed():
    made = world()
    made.ask(words.MakeSubscription({"id": "s", "expires_at": at(50.0)}, "sub"))
    made.run(100.0)
    assert made.broker.renewals == 0
    made.broker.expire("s", 1)
    made.cut()
    made.run(200.0)
    assert "s" not in made.broker.subs
    assert [fact.action for fact in made.heard(words.Cancelled)] == ["none"]


def test_a_clock_that_is_wrong_costs_renewals_and_not_the_subscription():
    made = world()
    made.agent.session.table.put({"id": "s", "ttl": 100}, at(-5000.0), 10.0)
    assert made.agent.session.table.next_due() == pytest.approx(90.0)
    made.agent.session.table.put({"id": "s", "ttl": 100}, at(999_999.0), 10.0)
    assert made.agent.session.table.next_due() == pytest.approx(90.0)


@pytest.mark.parametrize(
    ("policy", "action", "kept"),
    [
        ("resubscribe", "resubscribe", True),
        ("renew", "renew", True),
        ("ignore", "none", False),
        ("callback", "none", False),
    ],
)
def test_what_is_done_about_one_that_expired(policy, action, kept):
    made = world(on_cancelled=policy)
    made.ask(words.MakeSubscription({"id": "s"}, "sub"))
    made.run(2.0)
    made.broker.notices[7] = m.SubCancelled(7, ("s",))
    if policy != "renew":
        del made.broker.subs["s"]  # else it is in its period of grace
    made.stimulate(machine.Received("service", [made.broker.notices[7]]))
    made.stimulate(machine.Received("service", [m.SubCancelled(7, ("s",))]))
    made.run(4.0)
    assert [fact.action for fact in made.heard(words.Cancelled)] == [action], "a notice that comes again is no news"
    assert ("s" in made.broker.subs) is kept
    assert not made.broker.notices, "the notice was confirmed"


def test_a_renewal_that_comes_too_late_becomes_a_subscription():
    made = world(on_cancelled="renew")
    made.ask(words.MakeSubscription({"id": "s"}, "sub"))
    made.run(2.0)
    made.broker.expire("s", 1)
    made.cut()
    made.run(5.0)
    assert "s" in made.broker.subs
    assert [fact.action for fact in made.heard(words.Cancelled)][-1] == "resubscribe"


def test_one_that_somebody_ended_stays_ended():
    made = world()
    made.ask(words.MakeSubscription({"id": "s"}, "sub"))
    made.run(2.0)
    del made.broker.subs["s"]
    made.stimulate(machine.Received("service", [m.SubCancelled(1, ("s",), "cancelled")]))
    made.run(3.0)
    made.cut()
    made.run(9.0)
    assert "s" not in made.broker.subs


def test_a_cancelled_one_is_not_brought_back_by_an_answer_under_way():
    made = world()
    made.ask(words.MakeSubscription({"id": "s"}, "make"))
    made.ask(words.CancelSubscription("s", "cancel"))
    made.run(2.0)
    assert made.agent.session.table.subscriptions == {}
    assert made.agent.session.table.leaving == {}
    assert set(made.answers()) == {"make", "cancel"}


def test_waits_double_with_full_jitter_and_begin_again_after_a_steady_connection():
    made = world(start=False, first_wait_seconds=1.0, longest_wait_seconds=8.0)
    made.up = False
    made.start()
    made.run(300.0)
    waits = [fact.again_in_seconds for fact in made.heard(words.Disconnected)]
    bounds = [1.0, 2.0, 4.0, *[8.0] * len(waits)]
    assert all(0 <= wait <= bound for wait, bound in zip(waits, bounds, strict=False))
    assert max(waits) > 4.0
    assert min(waits[5:]) < 4.0, "from the whole interval"
    made.up = True
    made.run(400.0)
    made.cut()
    assert made.heard(words.Disconnected)[-1].again_in_seconds <= 1.0


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("outage", [1.0, 4.0, 15.0])
def test_after_an_outage_of_seconds_the_agent_is_back_within_seconds(outage, seed):
    made = world(seed=seed, first_wait_seconds=0.2, longest_wait_seconds=30.0)
    made.run(10.0)
    made.up = False
    made.cut()
    made.run(10.0 + outage)
    made.up = True
    made.run(10.0 + outage + max(0.5, outage / 2) + 0.5)
    assert made.agent.status == "CONNECTED"


def test_a_new_address_ends_the_wait():
    made = world(first_wait_seconds=1000.0, longest_wait_seconds=1000.0)
    made.cut()
    made.ask(words.Reachable())
    made.run(2.0)
    assert made.agent.status == "CONNECTED"
    made.ask(words.Reachable())
    assert made.agent.status == "CONNECTED"


def test_silence_is_asked_and_then_counts_as_lost():
    made = world(start=False, silence_seconds=10.0)
    made.start()
    made.run(35.0)
    assert made.agent.status == "CONNECTED", "PING is answered"
    answers, made.broker.receive = made.broker.receive, lambda messages, now: []
    made.run(56.0)
    assert made.heard(words.HangUp)[0] == words.HangUp("the service is silent")
    made.broker.receive = answers
    made.run(100.0)
    assert made.agent.status == "CONNECTED", "on another line"


def test_no_welcome():
    made = world(start=False, greeting_seconds=3.0)
    made.broker.receive = lambda messages, now: []
    made.start()
    made.run(4.0)
    assert made.heard(words.HangUp) == [words.HangUp("no WELCOME came")]


@pytest.mark.parametrize(("code", "ended"), [(400, True), (401, True), (403, True), (429, False), (503, False)])
def test_a_service_that_does_not_let_us_in(code, ended):
    for stimuli in (
        [machine.LinkUp("service"), machine.Received("service", [m.Error(None, code, "no")])],
        [machine.Asked(words.TurnedAway(code, "no"))],
    ):
        agent = Agent()
        step(agent, machine.Started())
        facts = [effect.fact for one in stimuli for effect in step(agent, one) if isinstance(effect, machine.Report)]
        assert (words.Ended("no", code) in facts) is ended
        assert agent.session.state == ("ended" if ended else "waiting")


@pytest.mark.parametrize(
    ("reason", "state"), [("taken over", "ended"), ("ended", "ended"), ("draining", "waiting"), ("too slow", "waiting")]
)
def test_the_service_closes(reason, state):
    made = world()
    made.ask(words.PublishEvent(EVENT, "one"))
    made.stimulate(machine.Received("service", [m.Closing(reason)]))
    assert made.agent.session.state == state
    assert bool(made.heard(words.Dropped)) is (state == "ended")
    if state == "ended":
        with pytest.raises(AgentError, match="ended"):
            made.ask(words.PublishEvent(EVENT))
        made.stimulate(machine.LinkUp("service"))
        assert isinstance(made.facts[-1], words.HangUp)


def test_leaving_confirms_and_says_good_bye():
    made = world()
    made.ask(words.MakeSubscription({"id": "s"}, "sub"))
    made.run(2.0)
    made.broker.publish("e", made.now)
    made.nudge()
    made.run(3.0)
    made.agent.handle(machine.Asked(words.Took([made.delivered[0].nid])), made.now, made.rng)
    last = sent(step(made.agent, machine.Asked(words.Leave()), made.now))
    assert [type(one) for one in last] == [m.Ack, m.Bye]
    assert step(made.agent, machine.Asked(words.Leave())) == []


def test_the_outbox_drops_the_oldest_and_counts():
    made = world(start=False, outbox=3)
    for number in range(5):
        made.ask(words.PublishEvent(EVENT, number))
    assert [(fact.ref, fact.dropped) for fact in made.heard(words.Dropped)] == [(0, 1), (1, 2)]
    made.start()
    made.run(2.0)
    assert list(made.answers()) == [2, 3, 4]


def test_an_outbox_that_is_off():
    made = world(start=False, outbox=0)
    with pytest.raises(AgentError, match="outbox is off"):
        made.ask(words.CancelSubscription("s"))
    assert made.agent.session.table.leaving == {}
    made.start()
    made.run(1.0)
    made.ask(words.PublishEvent(EVENT, "now"))
    made.run(2.0)
    assert list(made.answers()) == ["now"]


def test_a_busy_service_is_asked_again_but_publications_are_not():
    made = world(busy_seconds=0.5)
    carry_out, refusals = made.broker.carry_out, 3

    def busy(message, now):
        nonlocal refusals
        refusals -= 1
        return carry_out(message, now) if refusals < 0 else [m.Error(message.req, 503, "busy")]

    made.broker.carry_out = busy
    made.broker.receive = lambda messages, now: [one for each in messages for one in made.broker.carry_out(each, now)]
    made.ask(words.PublishEvent(EVENT, "event"))
    made.ask(words.MakeSubscription({"id": "s"}, "sub"))
    made.run(10.0)
    assert made.answers()["event"].code == 503
    assert isinstance(made.answers()["sub"], m.Subscribed)


def test_a_renewal_that_met_a_limit_on_requests_is_tried_again():
    made = world(busy_seconds=0.5)
    made.ask(words.MakeSubscription({"id": "s", "ttl": TTL}, "sub"))
    made.run(2.0)
    carry_out, refusals = made.broker.carry_out, 3

    def limited(message, now):
        nonlocal refusals
        refusals -= 1
        return carry_out(message, now) if refusals < 0 else [m.Error(message.req, 429, "slower")]

    made.broker.carry_out = limited
    made.broker.receive = lambda messages, now: [one for each in messages for one in made.broker.carry_out(each, now)]
    made.ask(words.ListSubscriptions("mine"))
    made.run(1.5 * TTL)
    assert made.answers()["mine"].code == 429, "the application hears of its own"
    assert made.heard(words.RenewalRefused) == []
    assert made.broker.renewals
    assert made.broker.subs["s"] > 1.5 * TTL


def test_a_replay_goes_on_after_a_reconnect():
    made = world()
    for number in range(9):
        made.broker.publish(f"e-{number}", 0.0)
    made.ask(words.ReplayLog({"id": "r"}, position=1, limit=7, ref="r"))
    (replay,) = made.agent.session.outbox.all()
    made.stimulate(machine.Received("service", [m.Replayed(replay.req, n, EVENT) for n in (1, 2)]))
    made.cut()
    made.run(20.0)
    assert [fact.replayed.position for fact in made.heard(words.Streamed)] == [1, 2, 3, 4, 5, 6, 7]
    assert isinstance(made.answers()["r"], m.Ok)
    made.stimulate(machine.Received("service", [m.Replayed(replay.req, 8, EVENT)]))
    assert len(made.heard(words.Streamed)) == 7, "nobody asked for that"


def test_acks_are_gathered():
    made = world(window=8, ack_seconds=1.0)
    made.ask(words.MakeSubscription({"id": "s"}, "sub"))
    made.run(2.0)
    for number in range(3):
        made.broker.publish(f"e-{number}", made.now)
    made.nudge()
    made.run(2.5)
    first, second, third = (one.nid for one in made.delivered)
    effects = step(made.agent, machine.Asked(words.Took([second])), made.now)
    assert sent(effects) == [], "the first is still in hand"
    effects = step(made.agent, machine.Asked(words.Took([first])), made.now)
    assert sent(effects) == [m.Ack(second)], "a quarter of the window"
    effects = step(made.agent, machine.Asked(words.Took([third])), made.now)
    assert effects == [machine.SetTimer("ack", 1.0)]
    assert sent(step(made.agent, machine.TimerFired("ack"), made.now)) == [m.Ack(third)]


def test_an_ack_does_not_speak_for_a_lower_one_that_came_late():
    inbox = Inbox(100, 10)
    assert inbox.add(m.Notify(10, "s", EVENT, ""))
    inbox.release([10])
    inbox.advance()
    assert inbox.add(m.Notify(5, "s", EVENT, ""))
    assert inbox.confirm() == (None, ())
    inbox.release([5])
    inbox.advance()
    assert inbox.confirm() == (10, ())
    assert inbox.dump() == {"seen": 10, "nids": [10, 5], "log": ""}


def two_subscriptions(**settings):
    made = world(**settings)
    for name in ("read", "unread"):
        made.ask(words.MakeSubscription({"id": name, "ttl": 1e6}, name))
    made.run(2.0)
    return made


def publish(made, numbers):
    """Whoever reads takes what is for it at once."""
    for number in numbers:
        made.broker.publish(f"e-{number}", made.now)
        made.nudge()
        made.run(made.now + 0.1)
        made.ask(words.Took([one.nid for one in made.delivered if one.sub_id == "read"]))
        made.run(made.now + 0.1)


def test_a_subscription_that_nobody_reads_holds_up_no_other():
    made = two_subscriptions(window=8)
    publish(made, range(100))
    read = [one.nid for one in made.delivered if one.sub_id == "read"]
    assert len(read) == 100, "with a window of 8"
    assert len([nid for nid in made.broker.mail if nid in read]) < 8, "they are confirmed one by one"
    assert not made.heard(words.Crowded)
    made.take_all()
    made.run(made.now + 5.0)
    assert not made.broker.mail
    assert made.broker.room == 8, "the window is what it was"


def test_what_nobody_reads_is_bounded_and_told():
    made = two_subscriptions(window=4)
    publish(made, range(300))
    assert made.broker.room == 4 * m.WIDEST
    assert [one.sub_id for one in made.heard(words.Crowded)] == ["unread"]
    assert len(made.delivered) < 600
    made.take_all()
    made.run(made.now + 5.0)
    for _ in range(400):
        made.take_all()
        made.nudge()
        made.run(made.now + 0.1)
    assert len(made.delivered) == 600


def test_a_lone_subscription_that_is_not_read_gets_a_window_and_no_more():
    made = world(window=8)
    made.ask(words.MakeSubscription({"id": "unread", "ttl": 1e6}, "sub"))
    made.run(2.0)
    publish(made, range(50))
    assert len(made.delivered) == 8
    assert made.broker.room == 8


def test_a_clean_end_confirms_what_was_done_behind_one_that_was_not():
    made = two_subscriptions(window=100)
    publish(made, range(5))
    made.ask(words.Leave())
    made.run(made.now + 1.0)
    assert {one.sub_id for one in made.broker.mail.values()} == {"unread"}


@pytest.mark.parametrize(
    ("log", "end", "anew"),
    [("one", 11, False), ("one", 10, True), ("one", 3, True), ("two", 1_000, True), ("", None, False)],
)
def test_numbers_of_another_log_are_forgotten(log, end, anew):
    agent = Agent(AgentSettings())
    nid = 10 * 2**20 + 1
    step(agent, machine.Started((), {"inbox": {"seen": nid, "nids": [nid], "log": "one"}}))
    assert sent(step(agent, machine.LinkUp("service"))) == [m.Hello("device", None, nid, 1_024, "one")]
    effects = step(agent, machine.Received("service", [m.Welcome("ana", "phone", 8, log=log, end=end)]))
    facts = [one.fact for one in effects if isinstance(one, machine.Report)]
    assert bool([fact for fact in facts if isinstance(fact, words.BegunAnew)]) == anew
    again = step(agent, machine.Received("service", [m.Notify(nid, "s", EVENT, "")]))
    assert bool([one for one in again if isinstance(one, machine.Deliver)]) == anew, "else it is a repeat"
    if anew:
        assert machine.Persist("inbox", {"seen": None, "nids": [], "log": log}) in effects


@pytest.mark.parametrize("while_connected", [True, False])
@pytest.mark.parametrize("ending", [machine.LinkDown("service"), machine.Asked(words.Leave())])
def test_what_was_done_without_being_confirmed_is_kept(ending, while_connected):
    """A program that ended while there was no connection got it again in its next run."""
    agent = Agent(AgentSettings(device="laptop", ack_seconds=60.0))
    step(agent, machine.Started())
    step(agent, machine.LinkUp("service"))
    step(agent, machine.Received("service", [m.Welcome("ana", "laptop", 1_024, log="one", end=11)]))
    step(agent, machine.Received("service", [m.Notify(nid, "s", EVENT, "") for nid in (5, 6, 7)]))
    effects = []
    if not while_connected:
        effects += step(agent, machine.LinkDown("service"))
    effects += step(agent, machine.Asked(words.Took([5, 6])))
    effects += step(agent, ending)
    kept = [effect.value for effect in effects if isinstance(effect, machine.Persist) and effect.key == "inbox"]
    again = Agent(AgentSettings(device="laptop"))
    step(again, machine.Started((), {"inbox": kept[-1]}))
    step(again, machine.LinkUp("service"))
    step(again, machine.Received("service", [m.Welcome("ana", "laptop", 1_024, log="one", end=11)]))
    effects = step(again, machine.Received("service", [m.Notify(nid, "s", EVENT, "") for nid in (5, 6, 7)]))
    assert [one.notification.nid for one in effects if isinstance(one, machine.Deliver)] == [7]


def parts_for(req, subs):
    return [m.Subs(req, subs[:2], 0, True), m.Subs(req, subs[2:4], 1, True), m.Subs(req, subs[4:], 2)]


def test_a_long_list_of_subscriptions_comes_in_parts():
    subs = tuple({"id": f"s-{number}", "expires_at": at(500.0)} for number in range(5))
    agent = Agent(AgentSettings(greets=False))
    step(agent, machine.Started())
    (query,) = sent(step(agent, machine.LinkUp("service")))
    step(agent, machine.Received("service", parts_for(query.req, subs)[:2]))
    assert not agent.session.begun
    step(agent, machine.Received("service", parts_for(query.req, subs)[2:]))
    assert agent.session.begun
    assert list(agent.session.table.subscriptions) == [one["id"] for one in subs]


def test_a_list_that_was_interrupted_begins_again():
    subs = tuple({"id": f"s-{number}"} for number in range(5))
    agent = Agent(AgentSettings(greets=False, existing="leave"))
    step(agent, machine.Started())
    step(agent, machine.LinkUp("service"))
    (query,) = sent(step(agent, machine.Asked(words.ListSubscriptions("list"))))
    step(agent, machine.Received("service", parts_for(query.req, subs)[:2]))
    assert query in sent(step(agent, machine.LinkUp("service"))), "the session was updated: it is asked again"
    step(agent, machine.Received("service", parts_for(query.req, subs)[:1]))
    effects = step(agent, machine.Received("service", parts_for(query.req, subs)))
    assert machine.Report(words.Answered("list", m.Subs(query.req, subs))) in effects


def test_the_parts_of_a_list_are_the_list(monkeypatch):
    monkeypatch.setattr(m, "SUBS_BYTES", 100)
    subs = [{"id": f"s-{number}"} for number in range(50)]
    parts = list(m.list_subs(7, subs))
    assert len(parts) > 5
    assert [one for part in parts for one in part.subs] == subs
    assert [(part.part, part.more) for part in parts] == [(n, n < len(parts) - 1) for n in range(len(parts))]
    assert list(m.list_subs(7, [])) == [m.Subs(7)]


def test_the_memory_of_numbers_is_bounded():
    memory = RecentKeys(10)
    assert [memory.add(number) for number in range(20)] == [True] * 20
    assert not memory.add(19)
    assert not memory.add(15)
    assert memory.add(0)
    assert len(memory) <= 11


def test_an_unknown_request():
    with pytest.raises(AgentError, match="object"):
        world().ask(object())


def test_the_default_lifetime_is_the_service_s():
    made = world()
    made.ask(words.MakeSubscription({"id": "s"}, "sub"))
    made.run(2.0)
    assert made.agent.session.table.next_due() == pytest.approx(1.01 + 0.8 * TTL, abs=0.1)


def test_an_answer_that_does_not_come_ends_the_connection():
    made = world(start=False, silence_seconds=10.0)
    made.start()
    made.run(1.0)
    carry_out, made.broker.carry_out = made.broker.carry_out, lambda message, now: []
    made.ask(words.PublishEvent(EVENT, "lost"))
    for second in range(2, 60):
        made.stimulate(machine.Received("service", []))  # other things are heard
        made.run(float(second))
        if made.heard(words.HangUp):
            break
    assert made.heard(words.HangUp) == [words.HangUp("an answer of the service did not come")]
    assert second > 20
    made.broker.carry_out = carry_out
    made.broker.done.clear()
    made.run(70.0)
    assert made.answers()["lost"] == m.Ok(made.answers()["lost"].req, 0)


def test_an_update_of_the_session_sends_again_what_was_not_answered():
    agent = Agent(AgentSettings(greets=False, existing="leave"))
    step(agent, machine.Started())
    assert sent(step(agent, machine.LinkUp("service"))) == []
    (publish,) = sent(step(agent, machine.Asked(words.PublishEvent(EVENT, "one"))))
    effects = step(agent, machine.LinkUp("service"))
    assert sent(effects) == [publish]
    assert not [one for one in effects if isinstance(one, machine.Report)], "the application need not know"
