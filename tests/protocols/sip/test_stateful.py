"""An agent and a broker against a model of one line: when the network has calmed down, both believe the same.

Hypothesis chooses who calls, moves, changes and ends what, and when the network loses and repeats. The model knows only
where the agent is.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from protocols.sip.cast import BROKER, USER, Scene, media
from protocols.sip.world import at
from recado.protocols.sip.events import Ended, Established, Failed, Updated
from recado.protocols.sip.limits import LAB


class TwoUserAgents(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1_000))
    def begin(self, seed):
        self.scene = Scene(seed, home=True, settings={"timers": LAB}, delay=(0.0, 0.1))
        self.where = 7
        for one in (self.scene.broker, self.scene.agent):
            self.scene.ask(one, "register")
        self.scene.run(1)

    def calls(self, machine):
        return list(machine.inspect()["calls"].items())

    @rule()
    @precondition(lambda self: len(self.calls(self.scene.agent)) < 3)
    def invite(self):
        self.scene.ask(self.scene.agent, "invite", BROKER, media(self.where))

    @rule()
    def move(self):
        self.where += 1
        self.scene.move(self.scene.agent, at(self.where))
        for call, state in self.calls(self.scene.agent):
            if state in ("connected", "updating"):
                self.scene.ask(self.scene.agent, "reinvite", call, media(self.where))

    @rule(data=st.data(), ours=st.booleans())
    def end(self, data, ours):
        machine = self.scene.agent if ours else self.scene.broker
        if self.calls(machine):
            self.scene.ask(machine, "bye", data.draw(st.sampled_from(self.calls(machine)))[0])

    @rule()
    def the_broker_changes_something(self):
        for call, state in self.calls(self.scene.broker):
            if state == "connected":
                self.scene.ask(self.scene.broker, "reinvite", call, media(1))

    @rule(loss=st.sampled_from((0.0, 0.3, 0.7)), repeat=st.sampled_from((0.0, 0.4)))
    def weather(self, loss, repeat):
        self.scene.loss, self.scene.repeat = loss, repeat

    @rule(seconds=st.sampled_from((0.01, 0.1, 1.0, 5.0)))
    def wait(self, seconds):
        self.scene.run(self.scene.now + seconds)

    @invariant()
    def every_call_is_told_in_order(self):
        """Nothing is told about a call before it came to be, or after its end."""
        if not hasattr(self, "scene"):
            return
        for machine in (self.scene.agent, self.scene.broker):
            over, open_ = set(), set()
            for fact in self.scene.told(machine):
                call = getattr(fact, "call", None)
                assert call not in over or call is None
                if isinstance(fact, Established):
                    assert call not in open_
                    open_.add(call)
                assert not isinstance(fact, Updated) or call in open_
                if isinstance(fact, Ended | Failed):
                    over.add(call)

    def teardown(self):
        if not hasattr(self, "scene"):
            return
        scene = self.scene
        scene.loss = scene.repeat = 0.0
        scene.run(scene.now + 40)
        ours = {self.place(scene.agent, call) for call, _ in self.calls(scene.agent)}
        theirs = {self.place(scene.broker, call)[::-1] for call, _ in self.calls(scene.broker)}
        assert ours == theirs
        assert {state for machine in (scene.agent, scene.broker) for _, state in self.calls(machine)} <= {"connected"}
        bindings = scene.proxy.location.bindings(USER, scene.now)
        assert [one.uri.host for one in bindings] == [f"10.0.0.{self.where}"]
        for machine in (scene.agent, scene.broker):
            for call, _ in self.calls(machine):
                if call in machine.inspect()["calls"]:
                    scene.ask(machine, "bye", call)
        scene.run(scene.now + 60)
        scene.empty()

    def place(self, machine, call):
        """Where both sides of a call are, as this one was told last."""
        facts = [one for one in self.scene.told(machine) if isinstance(one, Established | Updated) and one.call == call]
        return facts[-1].local.media.host, facts[-1].remote.media.host


TestTwoUserAgents = TwoUserAgents.TestCase
TestTwoUserAgents.settings = settings(max_examples=15, stateful_step_count=25, deadline=None)
