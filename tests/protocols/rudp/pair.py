"""Two pure connections in virtual time, over a link that loses, repeats, delays and reorders; and applications above.

The applications are the plain model that the protocol is judged by. Each posts numbered messages, posts again what
failed once the session is updated, and notes every posting that comes out on the other side.
"""

from __future__ import annotations

import struct
from collections import deque
from heapq import heappop, heappush
from itertools import count

from recado.protocols.machine import (
    Asked,
    CancelTimer,
    Deliver,
    Received,
    Report,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from recado.protocols.rudp import (
    Acknowledged,
    Disconnected,
    Failed,
    MoveTo,
    QueueFull,
    Resume,
    RudpConnection,
    SendMessage,
    Unreachable,
)

HEAD = struct.Struct("!II")
"""A posting's number, and the message's number: a message that is posted again keeps its own."""


class Application:
    def __init__(self, name, settings, remote, messages, rng):
        self.name, self.rng = name, rng
        own, other = (1, 2) if name == "a" else (2, 1)
        self.connection = RudpConnection(settings, own, other, remote, local_key=b"k" * 16, remote_key=b"k" * 16)
        self.effects = deque()
        self.messages, self.to_post = messages, deque(range(messages))
        self.again = []  # numbers of messages that failed; they go before those that were not posted yet
        self.posted = 0
        self.open = {}  # posting: number of the message
        self.acked, self.failed, self.delivered = [], [], []
        self.was_disconnected = 0
        self.timer = 0  # how often the timer was set or cancelled

    def post_some(self, tell):
        for _ in range(self.rng.randrange(1, 6)):
            if self.connection.failed or not self.to_post:
                return
            posting, number = self.posted + 1, self.to_post[0]
            message = HEAD.pack(posting, number) + bytes([number % 256]) * self.rng.choice((0, 1, 10, 100))
            try:
                tell(self, Asked(SendMessage(message, posting)))
            except QueueFull:
                return
            self.to_post.popleft()
            self.posted = posting
            self.open[posting] = number

    def told(self, effect):
        match effect:
            case Report(Acknowledged(posting)):
                del self.open[posting]
                self.acked.append(posting)
            case Report(Failed(posting, error)):
                assert isinstance(error, Unreachable)
                self.failed.append(posting)
                self.again.append(self.open.pop(posting))
            case Deliver(message):
                posting, number = HEAD.unpack_from(message)
                assert set(message[HEAD.size :]) <= {number % 256}
                self.delivered.append((posting, number))
            case Report(Disconnected()):
                self.was_disconnected += 1
                assert not self.open
                self.to_post.extendleft(reversed(self.again))
                self.again.clear()

    @property
    def finished(self):
        return not self.to_post and not self.connection.pending


class Pair:
    """``move_every`` is the mean time between changes of address of side a; ``update`` how long signalling takes."""

    def __init__(self, rng, settings, *, messages=(12, 12), loss=0.0, twice=0.0, delay=(0.01, 0.01), move_every=None):
        self.rng, self.loss, self.twice, self.delay, self.move_every = rng, loss, twice, delay, move_every
        self.now, self._agenda, self._order = 0.0, [], count()
        self.at = {"a": ("a", 0), "b": ("b", 0)}
        self.sides = {
            "a": Application("a", settings, self.at["b"], messages[0], rng),
            "b": Application("b", settings, self.at["a"], messages[1], rng),
        }
        self.datagrams = 0
        self.updating = False

    def begin_at(self, seq):
        """Both directions start with this sequence number."""
        for side in self.sides.values():
            side.connection._sender._next = side.connection._sender._base = seq
            side.connection._receiver.expected = seq

    def later(self, seconds, action, *arguments):
        heappush(self._agenda, (self.now + seconds, next(self._order), action, arguments))

    def run(self, until=600.0):
        for side in self.sides.values():
            self._tell(side, Started())
            self._talk(side)
        if self.move_every:
            self.later(self.rng.expovariate(1 / self.move_every), self._move)
        self.later(6.0, self._calm)
        while not all(side.finished for side in self.sides.values()):
            assert self._agenda, "nothing more happens, and not everything is settled"
            self.now, _, action, arguments = heappop(self._agenda)
            assert self.now < until, "it does not end"
            action(*arguments)

    def _calm(self):
        """The link gets better, so that everything ends."""
        self.loss, self.twice, self.delay, self.move_every = 0.0, 0.0, (0.01, 0.02), None

    def _talk(self, side):
        side.post_some(self._tell)
        self._act(side)
        self.later(self.rng.expovariate(20.0), self._talk, side)

    def _tell(self, side, stimulus):
        side.effects.extend(side.connection.handle(stimulus, self.now, self.rng))

    def _act(self, side):
        while side.effects:
            match effect := side.effects.popleft():
                case Send(address, datagram):
                    self._transmit(side, address, datagram)
                case SetTimer(_, seconds):
                    side.timer += 1
                    self.later(seconds, self._timer, side, side.timer)
                case CancelTimer():
                    side.timer += 1
                case _:
                    side.told(effect)
                    if isinstance(effect, Report) and isinstance(effect.fact, Disconnected):
                        self._begin_update()

    def _timer(self, side, timer):
        if side.timer == timer:
            self._tell(side, TimerFired("rudp"))
            self._act(side)

    def _transmit(self, side, address, datagram):
        for _ in range(2 if self.rng.random() < self.twice else 1):
            self.datagrams += 1
            if self.rng.random() >= self.loss:
                self.later(self.rng.uniform(*self.delay), self._arrive, address, datagram, self.at[side.name])

    def _arrive(self, address, datagram, source):
        name = address[0]
        if self.at[name] != address:
            return  # nobody is there any more
        side = self.sides[name]
        self._tell(side, Received(source, datagram))
        self._act(side)

    # -- the session layer: it notices, and tells both sides

    def _move(self):
        if self.move_every is None:
            return
        self.at["a"] = ("a", self.at["a"][1] + 1)
        self._begin_update()
        self.later(self.rng.expovariate(1 / self.move_every), self._move)

    def _begin_update(self):
        if not self.updating:
            self.updating = True
            self.later(self.rng.uniform(0.0, 0.5), self._update)

    def _update(self):
        self.updating = False
        self._tell(self.sides["b"], Asked(MoveTo(self.at["a"])))
        self._tell(self.sides["a"], Asked(Resume()))
        for side in self.sides.values():
            self._act(side)


def check(pair):
    """Exactly what is promised, of both directions."""
    for sender, receiver in (("a", "b"), ("b", "a")):
        sent, got = pair.sides[sender], pair.sides[receiver]
        postings = [posting for posting, _ in got.delivered]
        assert postings == sorted(set(postings)), "once, and in the order of posting"
        assert sent.acked == sorted(set(sent.acked)), "acknowledged in order"
        assert sorted(sent.acked + sent.failed) == list(range(1, sent.posted + 1))
        assert set(sent.acked) <= set(postings), "acknowledged means delivered"
        if not sent.was_disconnected:
            assert not sent.failed
        firsts = list(dict.fromkeys(number for _, number in got.delivered))
        assert firsts == list(range(sent.messages)), "nothing is lost, and without repeats the order is kept"
