"""One node and its application: requests, roles, facts, limits, and what survives a crash."""

from random import Random

import pytest

from protocols.trees.test_golden import system, tables
from recado.errors import RecadoError
from recado.filters.expression import parse
from recado.filters.template import parse as parse_template
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Asked, LinkUp, Received, Send, SetTimer, Started, TimerFired
from recado.protocols.pubsub import (
    BecomeBroker,
    BecomePublisher,
    LimitReached,
    Publish,
    Settled,
    Subscribe,
    Unpublished,
    Unsubscribe,
)
from recado.protocols.topology import NET_13, NET_16, line, ring, star
from recado.protocols.trees import SettingsError, TreeNode, TreeSettings, messages
from recado.sim.network import UnitDelay
from recado.sim.system import Cost


def node(*neighbours, settings=None, saved=None):
    made = TreeNode("me", settings)
    made.handle(Started(neighbours, saved or {}), 0.0, Random(1))
    return made


def step(machine, stimulus, now=0.0):
    return [(one.receiver, one.message) for one in machine.handle(stimulus, now, Random(2)) if isinstance(one, Send)]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Publish(Event("e", "t")), "does not publish 't' but nothing; it has to become a publisher"),
        (Unsubscribe("s"), "has no subscription 's'; it has none"),
        (BecomeBroker("t"), "does not publish 't', so it cannot stop"),
        (BecomePublisher("t.*"), "is no event type to publish"),
        (BecomePublisher(""), "is no event type to publish"),
        (Subscribe(Subscription("")), "empty id"),
        ("dance", "'dance' is no request to a tree node"),
    ],
)
def test_requests_that_make_no_sense(request_, message):
    machine = node()
    before = machine.inspect()
    with pytest.raises(RecadoError, match=message):
        machine.handle(Asked(request_), 0.0, Random(1))
    assert machine.inspect() == before


def test_an_id_is_used_once():
    machine = node()
    machine.handle(Asked(Subscribe(Subscription("s"))), 0.0, Random(1))
    with pytest.raises(RecadoError, match="already has a subscription 's'"):
        machine.handle(Asked(Subscribe(Subscription("s"))), 0.0, Random(1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mpp": "guess"}, "mpp is 'guess'; it is one of graft, aggregate, stream"),
        ({"repair_seconds": 0}, "repair_seconds is 0; it has to be more than 0"),
        ({"max_rows": 0}, "max_rows is 0; it has to be at least 1"),
        ({"buffer": -1}, "buffer is -1; it is a number of events"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(SettingsError, match=message):
        TreeSettings(**settings)


def test_facts_about_publishers():
    made = system(NET_13)
    made.subscribe("K", Subscription("s", type="t"))
    made.become_publisher("I", "t")
    made.become_publisher("A", "t")
    made.become_broker("I", "t")
    made.become_broker("A", "t")
    assert [fact for _, _, fact in made.facts] == [Settled("s", False), Settled("s", True), Unpublished("s")]
    assert tables(made, "t") == {}


def test_a_publisher_that_subscribes_hears_itself_unless_told_otherwise():
    for echo in (True, False):
        made = system(line(2), [(0, "t")], TreeSettings(echo=echo))
        made.subscribe(0, Subscription("own", type="t"))
        made.subscribe(1, Subscription("far", type="t"))
        made.publish(0, Event("e", "t"))
        assert [one.node for one in made.deliveries] == ([0, 1] if echo else [1])


def test_a_node_alone():
    machine = node()
    assert step(machine, Asked(Subscribe(Subscription("s", type="t")))) == []
    assert step(machine, Asked(BecomePublisher("t"))) == []
    effects = machine.handle(Asked(Publish(Event("e", "t"))), 0.0, Random(1))
    assert [effect.notification.subscriptions for effect in effects] == [("s",)]
    assert machine.inspect()["tables"] == {"t": {"s": {"next": ["me"], "origin": ["me"]}}}


def test_templates_name_their_type():
    made = system(NET_13, [("B", "News"), ("L", "Flight")])
    filter = parse_template("<News, [Newspaper-X],[Column-re:[YZ]],[Subject-A],[Author-*]>")
    made.subscribe("K", Subscription("s", filter))
    assert list(made.inspect(["K"])["K"]["tables"]) == ["News"]
    paper = {"Newspaper": "X", "Column": "Z", "Subject": "A", "Author": "anyone"}
    made.publish("B", Event("yes", "News", attributes=paper))
    made.publish("B", Event("no", "News", attributes={**paper, "Subject": "D"}))
    assert [one.event for one in made.deliveries] == ["yes"]


def test_patterns_of_types():
    made = system(line(4), [(0, "sensor.heat"), (0, "sensor.light"), (0, "noise")])
    made.subscribe(3, Subscription("some", type="sensor.*"))
    made.subscribe(2, Subscription("all"))
    for type in ("sensor.heat", "noise"):
        made.publish(0, Event(type, type))
    assert [(one.node, one.event) for one in made.deliveries] == [
        (2, "sensor.heat"),
        (3, "sensor.heat"),
        (2, "noise"),
    ]
    assert made.become_broker(0, "sensor.heat") == Cost(0, 0)  # the node still publishes what both want
    assert made.become_broker(0, "sensor.light") == Cost(3, 3)
    assert {id for rows in tables_of(made).values() for id in rows} == {"all"}


def tables_of(made):
    return {node: dict(table) for node, view in made.inspect().items() for table in view["tables"].values()}


def test_type_filtering_sends_more_and_delivers_the_same():
    costs = {}
    for filtering in ("content", "type"):
        made = system(line(5), [(0, "t")], TreeSettings(filtering=filtering))
        made.subscribe(4, Subscription("s", parse("v > 5"), "t"))
        costs[filtering] = [made.publish(0, Event(f"e{v}", "t", attributes={"v": v})).messages for v in (1, 9)]
        assert [one.event for one in made.deliveries] == ["e9"]
    assert costs == {"content": [0, 4], "type": [4, 4]}


def test_events_with_arrays():
    made = system(line(3), [(0, "t")])
    made.subscribe(2, Subscription("s", parse("v == 5"), "t"))
    made.publish(0, Event("e", "t", attributes={"v": (1, 5)}))
    assert [one.event for one in made.deliveries] == ["e"]


def test_a_message_of_another_protocol():
    with pytest.raises(RecadoError, match="'hello' is no message of the tree protocol"):
        step(node("a"), Received("a", "hello"))


def test_strangers_are_not_heard():
    machine = node("a")
    question = messages.Q(messages.Interest("s", 1, "t", "true"))
    assert step(machine, Received("b", question)) == []
    assert step(machine, Received("a", question)) == [("a", messages.QNo("s", 1))]


# -- answers that only races bring about


INTEREST = messages.Interest("s", 1, "t", "true")


def grafted():
    """A node between ``a``, which leads to the subscriber, and ``b``, where a new publisher is."""
    machine = node("a", "b", "c")
    step(machine, Received("b", messages.MP(7, "t")))
    step(machine, Received("c", messages.MPNo(7)))
    assert step(machine, Received("a", messages.MPYes(7, (INTEREST,)))) == [("b", messages.MPYes(7, (INTEREST,)))]
    assert step(machine, Received("b", messages.Graft(7, INTEREST))) == [("a", messages.Graft(7, INTEREST))]
    return machine


def test_a_question_that_finds_a_graft_lets_the_root_build_again():
    machine = grafted()
    assert step(machine, Received("c", messages.Q(INTEREST))) == [
        ("c", messages.QNo("s", 1)),
        ("c", messages.Repair("s", 1)),
    ]
    assert machine.inspect()["tables"] == {"t": {"s": {"next": ["a"], "origin": ["b"]}}}


def test_a_graft_that_finds_a_question_is_turned_away():
    machine = node("a", "b", "c")
    step(machine, Received("a", messages.Q(INTEREST)))
    assert step(machine, Received("b", messages.Graft(7, INTEREST))) == [
        ("a", messages.Repair("s", 1)),
        ("b", messages.C("s", 1, lost=True)),
    ]


def test_a_graft_whose_branch_was_forgotten_is_turned_away():
    machine = node("a", "b")
    assert step(machine, Received("b", messages.Graft(7, INTEREST))) == [("b", messages.C("s", 1, lost=True))]


def test_an_outdated_question_gets_a_no():
    machine = node("a", "b")
    newer = messages.Interest("s", 2, "t", "true")
    assert step(machine, Received("a", messages.Q(newer))) == [("b", messages.Q(newer))]
    assert step(machine, Received("b", messages.Q(INTEREST))) == [("b", messages.QNo("s", 1))]


def test_a_late_cancellation_of_an_older_tree_does_no_harm():
    machine = grafted()
    step(machine, Received("a", messages.Q(messages.Interest("s", 2, "t", "true"))))
    step(machine, Received("b", messages.QYes("s", 2)))
    assert step(machine, Received("a", messages.C("s", 1))) == []
    assert machine.inspect()["counters"]["rows"] == 1


def test_the_same_message_twice_changes_nothing():
    machine = node("a", "b")
    step(machine, Received("a", messages.Q(INTEREST)))
    step(machine, Received("b", messages.QYes("s", 1)))
    table = machine.inspect()["tables"]
    for message in (messages.C("s", 1), messages.QNo("s", 1), messages.MB("t", (("s", 2),)), messages.Redo(5)):
        step(machine, Received("b", message))
        assert machine.inspect()["tables"] == table
    assert step(machine, Received("b", messages.QYes("s", 1))) == [("b", messages.C("s", 1, lost=True))]


def test_damage_that_goes_on_does_not_put_off_the_rebuild():
    machine = node("a", "b")
    step(machine, Asked(Subscribe(Subscription("s", type="t"))))
    report = Received("a", messages.Repair("s", 1))
    timers = [effect for _ in range(3) for effect in machine.handle(report, 0.0, Random(1))]
    assert timers == [SetTimer(("rebuild", "s"), 1.0)]
    asked = step(machine, TimerFired(("rebuild", "s")))
    assert [message.interest.epoch for _, message in asked] == [2, 2]
    assert machine.handle(report, 0.0, Random(1)) == []  # that was about the tree before
    newer = Received("a", messages.Repair("s", 2))
    assert machine.handle(newer, 0.0, Random(1)) == timers


# -- limits


def test_a_full_table_refuses_and_says_so():
    made = system(line(4), [(0, "t")], TreeSettings(max_rows=2))
    for number in range(3):
        made.subscribe(3, Subscription(f"s{number}", type="t"))
    assert [fact for _, _, fact in made.facts if isinstance(fact, LimitReached)] == [
        LimitReached("max_rows", "a row for subscription 's2'")
    ]
    assert made.facts[-1][2] == Settled("s2", False)
    made.publish(0, Event("e", "t"))
    assert {view["counters"]["rows"] for view in made.inspect().values()} == {2}


def test_a_full_table_refuses_a_graft():
    made = system(line(4), settings=TreeSettings(max_rows=1))
    for number in range(2):
        made.subscribe(3, Subscription(f"s{number}", type="t"))
    made.become_publisher(0, "t")
    assert tables_of(made) == {
        node: {"s0": {"next": [min(node + 1, 3)], "origin": [max(node - 1, 0)]}} for node in range(4)
    }
    assert {fact.limit for _, _, fact in made.facts if isinstance(fact, LimitReached)} == {"max_rows"}


def test_a_relay_with_a_full_table_turns_a_graft_back():
    machine = node("a", "b", settings=TreeSettings(max_rows=1))
    other = messages.Interest("other", 1, "t", "true")
    step(machine, Received("b", messages.MP(7, "t")))
    step(machine, Received("a", messages.MPYes(7, (INTEREST, other))))
    assert step(machine, Received("b", messages.Graft(7, INTEREST))) == [("a", messages.Graft(7, INTEREST))]
    assert step(machine, Received("b", messages.Graft(7, other))) == [("b", messages.C("other", 1))]


def test_a_filter_that_nobody_can_read_gets_no_row():
    machine = node("a", "b")
    broken = messages.Interest("s", 1, "t", "(((")
    step(machine, Received("a", messages.Q(broken)))
    assert step(machine, Received("b", messages.QYes("s", 1))) == [
        ("b", messages.C("s", 1)),
        ("a", messages.QNo("s", 1)),
    ]
    assert machine.inspect()["counters"]["refused"] == 1


def test_too_many_questions_at_once():
    machine = node("a", "b", settings=TreeSettings(max_operations=1))
    step(machine, Received("a", messages.Q(INTEREST)))
    other = messages.Interest("other", 1, "t", "true")
    assert step(machine, Received("a", messages.Q(other))) == [("a", messages.QNo("other", 1))]
    step(machine, Received("a", messages.MP(1, "t")))
    assert step(machine, Received("a", messages.MP(2, "t"))) == [("a", messages.MPNo(2))]
    assert machine.inspect()["counters"]["refused"] == 2


def test_too_many_subscriptions():
    machine = node(settings=TreeSettings(max_subscriptions=1))
    step(machine, Asked(Subscribe(Subscription("one"))))
    with pytest.raises(RecadoError, match="has 1 subscriptions, which is the limit max_subscriptions"):
        step(machine, Asked(Subscribe(Subscription("two"))))


def test_memory_of_what_was_seen_is_bounded():
    made = system(ring(3), [(0, "t")], TreeSettings(max_seen=10))
    made.subscribe(1, Subscription("s", type="t"))
    for number in range(50):
        made.publish(0, Event(f"e{number}", "t"))
    assert all(5 <= view["counters"]["seen"] <= 10 for view in made.inspect([0, 1]).values())
    assert len(made.deliveries) == 50


def test_kept_searches_are_bounded():
    made = system(star(3), settings=TreeSettings(max_kept=4, max_operations=100))
    made.subscribe(1, Subscription("s", type="t"))
    for _ in range(20):
        made.become_publisher(2, "t")
    assert max(view["counters"]["searches"] for view in made.inspect().values()) <= 5


# -- crashes


def test_roles_survive_and_the_epoch_grows():
    made = system(NET_16, [("F", "y"), ("B", "z")])
    made.subscribe("F", Subscription("s", parse("v > 1"), "z"))
    simulation = made.simulation
    before = made.inspect(["F"])["F"]["subscriptions"]["s"]["epoch"]
    simulation.crash("F")
    for other in NET_16.neighbours("F"):
        simulation.link_down("F", other)
    made.run_until_quiet()
    assert tables(made, "z") == {}
    simulation.add("F", TreeNode("F"))
    for other in NET_16.neighbours("F"):
        simulation.link_up("F", other)
    made.run_until_quiet()
    view = made.inspect(["F"])["F"]
    assert view["publishes"] == ["y"]
    assert view["subscriptions"]["s"]["epoch"] > before
    made.publish("B", Event("e", "z", attributes={"v": 2}))
    assert [one.node for one in made.deliveries] == ["F"]


def test_the_loss_of_a_publisher_is_noticed():
    made = system(line(4), [(0, "t")])
    made.subscribe(3, Subscription("s", type="t"))
    made.simulation.crash(0)
    made.simulation.link_down(0, 1)
    made.run_until_quiet()
    assert [fact for _, _, fact in made.facts] == [Settled("s", True), Settled("s", False), Unpublished("s")]
    assert [view["tables"] for view in made.inspect([1, 2, 3]).values()] == [{}, {}, {}]


def test_a_restart_with_links_greets_and_asks_at_once():
    machine = node("a", saved={"epoch": 4, "subscription:s": ["t", "true"], "publishes:t": True})
    view = machine.inspect()
    assert view["publishes"] == ["t"]
    assert view["subscriptions"]["s"]["epoch"] == 5


def test_a_link_between_connected_nodes_costs_two_messages():
    made = system(NET_16, [("F", "y")])
    made.subscribe("O", Subscription("s", type="y"))
    before = made.messages
    made.simulation.link_up("O", "K")
    made.run_until_quiet()
    assert made.messages - before == 2


def test_a_node_that_joins_costs_the_others_little():
    made = system(line(20), [(0, "t")], network=UnitDelay())
    for number in range(10):
        made.subscribe(10, Subscription(f"s{number}", type="t"))
    before = made.messages
    made.simulation.add("new", TreeNode("new"))
    made.simulation.link_up("new", 5)
    made.run_until_quiet()
    assert made.messages - before == 2
    made.simulation.ask("new", BecomePublisher("t"))
    made.run_until_quiet()
    made.publish("new", Event("e", "t"))
    assert [one.subscriptions for one in made.deliveries] == [tuple(f"s{number}" for number in range(10))]


def test_a_second_word_about_a_link_is_ignored():
    machine = node("a")
    assert len(step(machine, LinkUp("a"))) == 1
    assert step(machine, LinkUp("a")) == []
