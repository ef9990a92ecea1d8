"""Neighbours that talk nonsense: any message, in any order. A node never fails, and sends little for each."""

from random import Random

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Asked, LinkDown, LinkUp, Received, Send, Started, TimerFired
from recado.protocols.pubsub import BecomePublisher, Subscribe
from recado.protocols.trees import TreeNode, TreeSettings, messages

NEIGHBOURS = ("a", "b", "c")
OPS = (1, 2, 3)


def interest(rng):
    filter = rng.choice(("true", "v > 1", "(((", "v matches 3"))
    return messages.Interest(rng.choice(("s", "t", "own")), rng.randrange(4), rng.choice(("t", "", "*")), filter)


def nonsense(rng):
    one = interest(rng)
    id, epoch, op = one.id, one.epoch, rng.choice(OPS)
    return rng.choice(
        (
            messages.Q(one),
            messages.QYes(id, epoch),
            messages.QNo(id, epoch),
            messages.Join(one, rng.choice(("s", "t", "own"))),
            messages.C(id, epoch, rng.random() < 0.5),
            messages.N(op, epoch, Event("e", "t", attributes={"v": 2}), (id,) if rng.random() < 0.5 else ()),
            messages.N(op, epoch, Event("e", "t"), (), ((op, "t", 9),)),
            messages.MP(op, "t"),
            messages.MPYes(op, (one, interest(rng))),
            messages.MPNo(op),
            messages.Graft(op, one),
            messages.MB("t", ((id, epoch),)),
            messages.Repair(id, epoch, rng.choice((0, op))),
            messages.Redo(op),
            messages.Hello(op, rng.random() < 0.5),
            messages.Cut(op),
            messages.Merge(op, 0, epoch),
        )
    )


def test_nothing_makes_a_node_fail():
    for seed in range(300):
        rng = Random(seed)
        settings = TreeSettings(
            mpp=rng.choice(("graft", "aggregate", "stream")), causal=seed % 3 == 0, buffer=seed % 2, share=seed % 5 == 0
        )
        node = TreeNode("me", settings)
        node.handle(Started(NEIGHBOURS), 0.0, rng)
        node.handle(Asked(Subscribe(Subscription("own", type="t"))), 0.0, rng)
        if rng.random() < 0.5:
            node.handle(Asked(BecomePublisher("t")), 0.0, rng)
        for now in range(60):
            stimulus = Received(rng.choice((*NEIGHBOURS, "stranger")), nonsense(rng))
            if rng.random() < 0.1:
                stimulus = rng.choice((LinkDown, LinkUp))(rng.choice(NEIGHBOURS))
            elif rng.random() < 0.1:
                stimulus = TimerFired((rng.choice(("rebuild", "search")), rng.choice(("own", "t"))))
            effects = node.handle(stimulus, float(now), rng)
            sent = [effect for effect in effects if isinstance(effect, Send)]
            assert len(sent) <= 60, stimulus
            assert all(effect.receiver in NEIGHBOURS for effect in sent)
            node.inspect()
