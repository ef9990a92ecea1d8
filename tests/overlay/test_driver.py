"""The driver gives stimuli one at a time and carries out effects in their order; what is persisted is safe first."""

import asyncio
from random import Random

import msgspec
import pytest

from overlay.helpers import run
from recado.errors import RecadoError
from recado.overlay.driver import NodeDriver
from recado.overlay.limits import OVERLAY_LIMITS, LinkError, OverlayError
from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    Deliver,
    LinkDown,
    LinkUp,
    Persist,
    Received,
    Report,
    Send,
    SendFailed,
    SetTimer,
    Started,
    TimerFired,
)


class Scripted:
    """A machine that does what the test says: ``rules`` maps a stimulus to effects or to an error."""

    def __init__(self, rules):
        self.rules, self.heard = rules, []

    def handle(self, stimulus, now, rng):
        self.heard.append(stimulus)
        found = self.rules.get(repr(stimulus), ())
        if isinstance(found, Exception):
            raise found
        return found

    def inspect(self):
        return {}


class Around:
    """Writes down what the driver does, in order; doubles as its state."""

    def __init__(self, saved=None, linked=("b",)):
        self.done, self.saved, self.linked, self.broken = [], saved or {}, linked, False

    def send(self, receiver, message):
        self.done.append(("send", receiver, message))
        return 10 if receiver in self.linked else -1

    def deliver(self, notification):
        self.done.append(("deliver", notification))

    def report(self, fact):
        self.done.append(("report", fact))

    def open_link(self, peer, address):
        self.done.append(("open", peer, address))

    def close_link(self, peer):
        self.done.append(("close", peer))

    def load(self):
        return self.saved

    def put(self, key, value):
        self.done.append(("put", key, value))

    def commit(self):
        if self.broken:
            raise OSError("the disk is full")
        self.done.append(("commit",))

    def close(self, *, commit=True):
        self.done.append(("close",))


def drive(rules, test, **around):
    async def whole():
        surroundings = Around(**around)
        machine = Scripted({repr(stimulus): effects for stimulus, effects in rules})
        failures = []
        driver = NodeDriver(
            machine, surroundings, state=surroundings, limits=OVERLAY_LIMITS, rng=Random(1), stop=failures.append
        )
        await test(driver, machine, surroundings, failures)
        driver.close()

    run(whole())


def test_a_machine_starts_with_what_was_saved():
    async def test(driver, machine, around, failures):
        driver.start()
        assert machine.heard == [Started((), {"k": 1})]

    drive([], test, saved={"k": 1})


def test_effects_are_carried_out_in_their_order():
    effects = [Send("b", 1), Deliver("n"), Report("f"), Send("b", 2)]

    async def test(driver, machine, around, failures):
        await driver.ask("go")
        assert around.done == [("send", "b", 1), ("deliver", "n"), ("report", "f"), ("send", "b", 2)]
        assert driver.counters.plain() == {
            "steps": 1,
            "delivered": 1,
            "sent_bytes": 20,
            "received_bytes": 0,
            "sent": {"int": 2},
            "received": {},
            "failed": {},
        }

    drive([(Asked("go"), effects)], test)


def test_what_follows_a_persist_waits_for_one_commit():
    async def test(driver, machine, around, failures):
        first = asyncio.create_task(driver.ask("one"))
        second = asyncio.create_task(driver.ask("two"))
        await asyncio.gather(first, second)
        assert around.done == [
            ("send", "b", 0),
            ("put", "k", 1),
            ("put", "k", 2),
            ("commit",),
            ("send", "b", 1),
            ("send", "b", 2),
        ]

    rules = [
        (Asked("one"), [Send("b", 0), Persist("k", 1), Send("b", 1)]),
        (Asked("two"), [Persist("k", 2), Send("b", 2)]),
    ]
    drive(rules, test)


@pytest.mark.parametrize("change", [LinkUp("b"), LinkDown("b")])
def test_nothing_that_was_held_is_sent_on_another_link(change):
    async def test(driver, machine, around, failures):
        driver.tell(Asked("go"))
        assert around.done == [("put", "k", 1)]
        driver.tell(change)
        assert around.done == [("put", "k", 1), ("commit",), ("send", "b", 1), ("deliver", "change")]
        await asyncio.sleep(0)

    drive([(Asked("go"), [Persist("k", 1), Send("b", 1)]), (change, [Deliver("change")])], test)


def test_a_node_that_cannot_save_does_not_go_on():
    async def test(driver, machine, around, failures):
        around.broken = True
        with pytest.raises(OverlayError, match="the state cannot be saved"):
            await driver.ask("go")
        driver.tell(Asked("go"))
        await asyncio.sleep(0)
        assert failures == ["the state cannot be saved: the disk is full"]
        assert ("send", "b", 1) not in around.done
        around.broken = False

    drive([(Asked("go"), [Persist("k", 1), Send("b", 1)])], test)


def test_a_message_to_nobody_comes_back_after_the_step():
    async def test(driver, machine, around, failures):
        await driver.ask("go")
        assert machine.heard == [Asked("go"), SendFailed("x", 1)]
        assert around.done[-1] == ("deliver", "sorry")
        assert driver.counters.failed == {"int": 1}

    drive([(Asked("go"), [Send("x", 1), Send("b", 2)]), (SendFailed("x", 1), [Deliver("sorry")])], test)


def test_a_timer_fires_once_and_setting_it_again_replaces_it():
    async def test(driver, machine, around, failures):
        await driver.ask("set")
        await driver.ask("set")
        await driver.ask("other")
        await driver.ask("cancel")
        while not around.done:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.03)
        assert around.done == [("deliver", "fired")]

    rules = [
        (Asked("set"), [SetTimer(("t", 1), 0.01)]),
        (Asked("other"), [SetTimer("u", 0.01)]),
        (Asked("cancel"), [CancelTimer("u"), CancelTimer("never set")]),
        (TimerFired(("t", 1)), [Deliver("fired")]),
        (TimerFired("u"), [Deliver("wrong")]),
    ]
    drive(rules, test)


def test_no_timer_fires_after_the_end():
    async def test(driver, machine, around, failures):
        await driver.ask("set")
        driver.close()
        await asyncio.sleep(0.03)
        assert machine.heard == [Asked("set")]

    drive([(Asked("set"), [SetTimer("t", 0.01)])], test)


def test_the_asker_hears_why_a_request_makes_no_sense():
    async def test(driver, machine, around, failures):
        with pytest.raises(RecadoError, match="no sense"):
            await driver.ask("go")
        with pytest.raises(OverlayError, match="the node failed at this request"):
            await driver.ask("bug")
        assert driver.story.count == 0

    drive([(Asked("go"), RecadoError("no sense")), (Asked("bug"), KeyError("x"))], test)


def test_a_message_that_cannot_be_taken_is_the_fault_of_its_link():
    async def test(driver, machine, around, failures):
        with pytest.raises(LinkError, match="b sent a str that cannot be taken: 'x'"):
            driver.received("b", "m", 7)
        driver.tell(TimerFired("t"))  # nobody to blame: it is logged, and the node goes on
        driver.received("b", "fine", 7)
        assert driver.counters.received == {"str": 2}

    drive([(Received("b", "m"), KeyError("x")), (TimerFired("t"), KeyError("y"))], test)


def test_radio_has_no_place_on_tcp():
    async def test(driver, machine, around, failures):
        await driver.ask("go")
        assert "which a TCP overlay cannot do" in failures[0]

    drive([(Asked("go"), [Broadcast("m")])], test)


# -- the story


def test_the_story_tells_what_led_to_what():
    async def test(driver, machine, around, failures):
        await driver.ask("go")
        driver.received("b", "news", 50)
        driver.tell(LinkDown("b"))
        first, second, third = driver.story.tell()
        assert (first["what"], first["kind"], first["message"]) == ("Asked", "str", "go")
        assert first["then"] == [
            {"do": "Send", "to": "b", "kind": "str", "message": "hello", "why": "it was asked"},
            {"do": "Persist", "key": "k", "value": 1},
        ]
        assert (second["from"], second["message"]) == ("b", "news")
        assert second["then"] == [{"do": "Deliver", "kind": "str", "message": "the news"}]
        assert third["peer"] == "b"
        assert [step["step"] for step in driver.story.tell("news")] == [2]
        assert [step["step"] for step in driver.story.tell(last=2)] == [2, 3]
        assert first["time"] <= second["time"] <= third["time"]

    rules = [
        (Asked("go"), [Send("b", "hello", "it was asked"), Persist("k", 1)]),
        (Received("b", "news"), [Deliver("the news")]),
    ]
    drive(rules, test)


def test_the_story_is_bounded_in_steps_and_bytes():
    from recado.overlay.driver import Story

    story = Story(msgspec.structs.replace(OVERLAY_LIMITS, story_steps=5, story_bytes=100))
    for number in range(20):
        story.add(float(number), LinkUp(f"p{number}"), (), 1)
    assert [step["peer"] for step in story.tell()] == [f"p{n}" for n in range(15, 20)]
    story.add(20.0, LinkUp("large"), (), 99)
    assert [step["peer"] for step in story.tell()] == ["p19", "large"]
