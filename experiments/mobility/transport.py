"""E1, E3 and E4: what RUDP costs, when it gives up, and how often it is wrong to do so.

B0 is plain UDP: one datagram for each notification, and no answer. B1 is TCP at this rate: a segment and its
acknowledgement for each notification, three segments to open the connection and four to close it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from experiments.mobility.town import DELAY, Numbers, Town, percentile
from recado.protocols.machine import Asked, Effect, Report, Rng, Send, SetTimer, Stimulus, TimerFired
from recado.protocols.rudp import Disconnected, Resume, RudpConnection, RudpSettings, SendMessage, profile
from recado.protocols.rudp.connection import RttEstimator
from recado.sim.draws import constant
from recado.sim.faults import Loss
from recado.sim.kernel import Simulation, stream
from recado.sim.network import Links

KEY = bytes(16)
"""Of every connection here; nobody guesses."""
LOSSES = (0.0, 0.05, 0.1, 0.2, 0.3)


def cost(quick: bool) -> Numbers:
    """E1: notifications one after another to a device that stays."""
    count = 500 if quick else 10_000
    town = Town()
    town.subscribe()
    before = town.simulation.nodes["phone"]
    packets, size = before.up_messages + before.down_messages, before.up_bytes + before.down_bytes
    started = town.simulation.now
    town.publish_steadily(20, count / 20)
    town.run(count / 20 + 5)
    node = town.simulation.nodes["phone"]
    late = [now - (started + number / 20) for now, _, number in town.heard]
    p50, p99 = percentile(late, 50), percentile(late, 99)
    per = (node.up_messages + node.down_messages - packets) / count
    return {
        "delivered": len(town.heard), "events": count, "latency.p50": p50, "latency.p99": p99,
        "B0.latency": 2 * DELAY, "packets": per, "bytes": (node.up_bytes + node.down_bytes - size) / count,
        "B0.packets": 1.0, "B1.packets": 2 + 7 / count,
    }  # fmt: skip


def detection(quick: bool) -> Numbers:
    """E3 and the vectors 17.1 and 17.2: how long a silent peer goes unnoticed."""
    classic, lab = profile("classic"), profile("lab")
    answers: Numbers = {
        "classic": _gives_up(classic)[-1],
        "lab": _gives_up(lab)[-1],
        "floor": classic.detection_seconds(classic.rto_min_seconds),
        "doubled init": _gives_up(_with(classic, rto_init_seconds=6.0))[-1],
        "backoff 3": _gives_up(_with(classic, backoff=3.0, rto_max_seconds=1_000.0))[-1],
        "retries 4": _gives_up(_with(classic, max_retries=4))[-1],
        "instants": " ".join(f"{at:g}" for at in _gives_up(classic)),
        "instants 1.5": " ".join(f"{at:g}" for at in _gives_up(_with(classic, backoff=1.5))),
        "town": _town_detection(),
    }
    return answers | _estimates()


def _with(settings: RudpSettings, **changes: Any) -> RudpSettings:
    return msgspec.structs.replace(settings, **changes)


def _gives_up(settings: RudpSettings) -> list[float]:
    """When a packet that nobody answers is sent, and at last when it is given up."""
    connection = RudpConnection(settings, 1, 2, "nobody", 0.0, local_key=KEY, remote_key=KEY)
    chance = stream(0, "nothing is drawn")
    effects = connection.handle(Asked(SendMessage(b"hello")), 0.0, chance)
    instants: list[float] = []
    now = due = 0.0
    while True:
        for effect in effects:
            match effect:
                case Send():
                    instants.append(now)
                case SetTimer(_, seconds):
                    due = now + seconds
                case Report(Disconnected()):
                    return [*instants, now]
        now = due
        effects = connection.handle(TimerFired("rudp"), now, chance)


def _town_detection() -> float:
    """The same at the broker: a device without coverage, and the time from the NOTIFY to DISCONNECTED."""
    town = Town()
    town.subscribe()
    town.move(covered=False)
    town.run(1.0)
    expected = town.rudp.detection_seconds(town.broker.connection("phone", "user").rto_seconds)
    town.publish()
    began = town.simulation.now
    while town.connected():
        town.run(0.01)
    return (town.simulation.now - began) / expected


def _estimates() -> Numbers:
    estimator = RttEstimator(profile("classic"))
    answers: Numbers = {}
    for number, sample in enumerate((0.1, 0.12, 0.08, 0.4), 1):
        estimator.sample(sample)
        answers |= {
            f"srtt.{number}": estimator.srtt, f"rttvar.{number}": estimator.rttvar, f"rto.{number}": estimator.unclamped
        }  # fmt: skip
    return answers


class Sender:
    """Sends messages one after another, and again what was given up."""

    def __init__(self, settings: RudpSettings, messages: int) -> None:
        self.connection = RudpConnection(settings, 1, 2, "receiver", local_key=KEY, remote_key=KEY)
        self._left, self.failures = messages, 0

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        out: list[Effect] = []
        todo = deque(self.connection.handle(stimulus, now, rng))
        while True:
            if not self.connection.pending and self._left and not self.connection.failed:
                todo.extend(self.connection.handle(Asked(SendMessage(b"x")), now, rng))
                self._left -= 1
            if not todo:
                return out
            match effect := todo.popleft():
                case Report(Disconnected()):
                    self.failures += 1
                    self._left += 1
                    todo.extend(self.connection.handle(Asked(Resume()), now, rng))
                case Report():
                    pass
                case _:
                    out.append(effect)

    def inspect(self) -> dict[str, Any]:
        return {}


class Receiver:
    def __init__(self, settings: RudpSettings) -> None:
        self._connection = RudpConnection(settings, 2, 1, "sender", local_key=KEY, remote_key=KEY)

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        return self._connection.handle(stimulus, now, rng)

    def inspect(self) -> dict[str, Any]:
        return {}


def losses(quick: bool) -> Numbers:
    """E4: messages over a line that loses packets, four tries each."""
    messages = 2_000 if quick else 20_000
    answers: Numbers = {"messages": messages}
    settings = profile("lab")
    for loss in LOSSES:
        sender, delivered = Sender(settings, messages), [0]

        def heard(now: float, node: Any, message: Any, delivered: list[int] = delivered) -> None:
            delivered[0] += 1

        network = Loss(Links(constant(DELAY)), loss, stream(7, "loss", int(loss * 100)))
        simulation = Simulation(network, deliver=heard)
        simulation.add("receiver", Receiver(settings))
        simulation.add("sender", sender)
        simulation.run()
        counters, name = sender.connection.counters, f"{loss:.0%}"
        formula = (1 - (1 - loss) ** 2) ** (settings.max_retries + 1)
        attempts = messages + sender.failures
        answers |= {
            f"{name}.delivered": min(delivered[0], messages) / messages,
            f"{name}.resent": counters.resent / messages,
            f"{name}.false": sender.failures / attempts,
            f"{name}.formula": formula,
            f"{name}.off": abs(sender.failures - formula * attempts) / max(1.0, (formula * attempts) ** 0.5),
        }
    return answers
