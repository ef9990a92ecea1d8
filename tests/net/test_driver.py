"""The driver of machines: the order of effects, timers, back-pressure of what is not safe yet, and errors told once."""

import asyncio

import pytest

from recado.net.driver import Driver, Timers
from recado.protocols.machine import (
    Asked,
    Broadcast,
    CancelTimer,
    Deliver,
    Persist,
    Received,
    Report,
    Send,
    SendFailed,
    SetTimer,
    TimerFired,
)


class Script:
    """A machine that does what a table says, and keeps what it was told."""

    def __init__(self, table):
        self.table, self.told = table, []

    def handle(self, stimulus, now, rng):
        self.told.append(stimulus)
        found = self.table.get(stimulus, ())
        if isinstance(found, Exception):
            raise found
        return found

    def inspect(self):
        return {}


def run(scene):
    async def bounded():
        complaints = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["message"]))
        await asyncio.wait_for(scene(complaints), 60)

    asyncio.run(bounded())


def test_effects_are_carried_out_in_order_and_steps_are_taken_at_once():
    async def scene(complaints):
        done = []
        machine = Script(
            {
                Asked("first"): [Send("a", 1), Deliver("x"), Send("a", 2)],
                Asked("second"): [Send("a", 3)],
            }
        )

        def deliver(value):
            done.append(value)
            driver.ask("second")
            assert machine.told[-1] == Asked("second"), "the machine has heard of it already"

        driver = Driver(machine, send=lambda to, message: done.append(message) or True, deliver=deliver)
        driver.ask("first")
        assert done == [1, "x", 2, 3]
        assert complaints == []

    run(scene)


def test_a_request_that_makes_no_sense_raises_to_whoever_asked_also_inside_of_a_call_back():
    async def scene(complaints):
        caught = []
        machine = Script({Asked("go"): [Report("news"), Send("a", 1)], Asked("bad"): ValueError("no")})

        def report(fact):
            with pytest.raises(ValueError, match="no"):
                driver.ask("bad")
            caught.append(fact)

        sent = []
        driver = Driver(machine, send=lambda to, message: sent.append(message) or True, report=report)
        driver.ask("go")
        assert (caught, sent, complaints) == (["news"], [1], [])

    run(scene)


def test_a_call_back_that_fails_is_told_once_and_keeps_nothing_back():
    async def scene(complaints):
        sent = []
        machine = Script({Asked("go"): [Deliver(0), Report(1.5), Broadcast("x"), Send("a", 1)]})

        def fail(value):
            raise RuntimeError("a fault of the application")

        driver = Driver(
            machine, send=lambda to, message: sent.append(message) or True, deliver=fail, report=fail, name="the test"
        )
        driver.ask("go")
        assert sent == [1]
        assert complaints == [f"unexpected error in {what} of the test" for what in ("Deliver", "float", "Broadcast")]

    run(scene)


def test_what_was_not_sent_is_told_after_all_effects_of_the_step():
    async def scene(complaints):
        log = []
        machine = Script({Asked("go"): [Send("gone", 1), Report("end")], SendFailed("gone", 1): [Report("failed")]})
        driver = Driver(machine, send=lambda to, message: to != "gone", report=log.append)
        driver.ask("go")
        assert log == ["end", "failed"]
        assert machine.told[-1] == SendFailed("gone", 1)

    run(scene)


def test_effects_after_a_value_that_is_not_safe_wait_for_it():
    async def scene(complaints):
        sent, kept = [], []
        machine = Script({Asked("go"): [Send("a", 1), Persist("k", 7), Send("a", 2)], Asked("more"): [Send("a", 3)]})

        def persist(key, value):
            kept.append((key, value))
            driver.hold()

        driver = Driver(machine, send=lambda to, message: sent.append(message) or True, persist=persist)
        driver.ask("go")
        driver.ask("more")
        assert (sent, kept) == ([1], [("k", 7)])
        driver.release()
        assert sent == [1, 2, 3]

    run(scene)


def test_timers_fire_once_and_are_replaced_and_cancelled():
    async def scene(complaints):
        machine = Script(
            {
                Asked("go"): [SetTimer("a", 0.01), SetTimer("b", 0.01), SetTimer("c", 30.0), SetTimer("d", 0.02)],
                Asked("change"): [CancelTimer("a"), SetTimer("c", 0.03), SetTimer("d", 40.0)],
                TimerFired("b"): ValueError("a machine that fails"),
            }
        )
        driver = Driver(machine, send=lambda to, message: True)
        driver.ask("go")
        driver.ask("change")
        assert driver.timers == ("b", "c", "d")
        await asyncio.sleep(0.1)
        assert machine.told[2:] == [TimerFired("b"), TimerFired("c")]
        assert len(complaints) == 1
        driver.close()
        driver.tell(Received("a", 1))
        assert machine.told[-1] == TimerFired("c"), "after close it is told nothing"
        assert driver.timers == ()

    run(scene)


def test_drivers_share_one_timer_of_the_loop():
    async def scene(complaints):
        timers, fired = Timers(), []
        machines = [Script({Asked("go"): [SetTimer("same key", 0.01 * number)]}) for number in range(3)]
        drivers = [Driver(one, send=lambda to, message: True, timers=timers) for one in machines]
        for one in drivers:
            one.ask("go")
        drivers[1].close()
        await asyncio.sleep(0.1)
        fired = [one.told[1:] for one in machines]
        assert fired == [[TimerFired("same key")], [], [TimerFired("same key")]]
        timers.close()

    run(scene)


def test_timers_that_are_set_again_and_again_do_not_pile_up():
    async def scene(complaints):
        timers = Timers()
        for number in range(10_000):
            timers.set("a", 100.0 + number, lambda: None)
            timers.set(("b", number), 5.0, lambda: None)
            timers.cancel(("b", number))
        assert len(timers._heap) < 100
        assert len(timers) == 1
        timers.close()

    run(scene)


def test_a_timer_that_is_moved_fires_at_its_last_instant_only():
    async def scene(complaints):
        timers, fired = Timers(), []
        loop = asyncio.get_running_loop()
        began = loop.time()
        for seconds in (0.05, 0.01, 0.06, 0.04):
            timers.set("a", seconds, lambda: fired.append(loop.time() - began))
        await asyncio.sleep(0.15)
        assert len(fired) == 1
        assert fired[0] >= 0.039
        timers.close()

    run(scene)
