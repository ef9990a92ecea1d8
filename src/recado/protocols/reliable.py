"""Reliable links for a network that loses, repeats or reorders messages. TCP does not need them; radio or UDP would.

Most protocols assume links that are reliable and in order while they are up. ``ReliableLinks`` gives that to a
machine that it is put around: messages on a link are numbered, the receiver hands them on in order and once, and
acknowledges the last one; what is not acknowledged is sent again, after waits that double up to a maximum.

A link's numbers belong to a session, which begins with LinkUp and is named by a number that grows. A frame of a
newer session tells that the other end began anew without this end having been told; then the machine inside
sees the link go down and come up. At most ``window`` messages wait on a link: with more, the link counts as lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from recado.protocols.machine import (
    Effect,
    LinkDown,
    LinkUp,
    Machine,
    NodeId,
    Received,
    Report,
    Rng,
    Send,
    SetTimer,
    Started,
    Stimulus,
    TimerFired,
)
from recado.protocols.pubsub import LimitReached

_RESENT_AT_ONCE = 64

M = TypeVar("M")


class Frame(msgspec.Struct, Generic[M], frozen=True, gc=False, tag="FRAME", tag_field="kind", array_like=True):
    """A message of the inner machine. A decoder takes ``Frame[messages] | Ack``."""

    session: int
    number: int
    message: M


class Ack(msgspec.Struct, frozen=True, gc=False, tag="ACK", tag_field="kind", array_like=True):
    """Everything up to ``number`` of the receiver's session has come."""

    session: int
    number: int


class _Link:
    __slots__ = ("early", "last", "peer", "received", "session", "unacknowledged", "wait")

    def __init__(self, session: int, wait: float) -> None:
        self.session, self.wait = session, wait
        self.peer = self.last = self.received = 0
        self.unacknowledged: dict[int, Any] = {}
        self.early: dict[int, Any] = {}


class ReliableLinks:
    """A machine around another one; it sends frames where the other sends messages."""

    def __init__(
        self, inner: Machine, *, resend_seconds: float = 4.0, longest_wait_seconds: float = 60.0, window: int = 4_096
    ) -> None:
        self.inner = inner
        self._first_wait, self._longest_wait, self._window = resend_seconds, longest_wait_seconds, window
        self._links: dict[NodeId, _Link] = {}
        self._session = 0
        self.resent = 0

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        match stimulus:
            case Received(sender, Frame() as frame):
                return self._on_frame(sender, frame, now, rng)
            case Received(sender, Ack(session, number)):
                self._on_ack(sender, session, number)
                return ()
            case Received():
                return ()  # not of this protocol
            case TimerFired(("resend", peer)):
                return self._resend(peer)
            case Started(neighbours):
                for peer in neighbours:
                    self._open(peer, now)
            case LinkUp(peer):
                self._open(peer, now)
            case LinkDown(peer):
                self._links.pop(peer, None)
        return self._inside(stimulus, now, rng)

    def inspect(self) -> dict[str, Any]:
        waiting = sum(len(link.unacknowledged) for link in self._links.values())
        return {**self.inner.inspect(), "links": {"unacknowledged": waiting, "resent": self.resent}}

    def _open(self, peer: NodeId, now: float) -> None:
        self._session = max(self._session + 1, int(now * 1_000))
        self._links[peer] = _Link(self._session, self._first_wait)

    # -- out

    def _inside(self, stimulus: Stimulus, now: float, rng: Rng) -> list[Effect]:
        """Let the inner machine take a step, and put what it sends into frames."""
        out: list[Effect] = []
        lost: dict[NodeId, None] = {}
        for effect in self.inner.handle(stimulus, now, rng):
            if type(effect) is not Send:
                out.append(effect)
            elif effect.receiver in self._links:
                self._send(effect, out, lost)
        for peer in lost:
            del self._links[peer]
            out.append(Report(LimitReached("window", f"more messages to {peer!r}, which does not answer")))
            out += self._inside(LinkDown(peer), now, rng)
        return out

    def _send(self, effect: Send, out: list[Effect], lost: dict[NodeId, None]) -> None:
        peer = effect.receiver
        link = self._links[peer]
        if len(link.unacknowledged) >= self._window:
            lost[peer] = None
            return
        link.last += 1
        if not link.unacknowledged:
            out.append(SetTimer(("resend", peer), link.wait))
        link.unacknowledged[link.last] = effect.message
        out.append(Send(peer, Frame(link.session, link.last, effect.message), effect.why))

    def _resend(self, peer: NodeId) -> list[Effect]:
        link = self._links.get(peer)
        if link is None or not link.unacknowledged:
            return []
        link.wait = min(2 * link.wait, self._longest_wait)
        out: list[Effect] = [SetTimer(("resend", peer), link.wait)]
        for number, message in list(link.unacknowledged.items())[:_RESENT_AT_ONCE]:
            self.resent += 1
            out.append(Send(peer, Frame(link.session, number, message), "it was not acknowledged"))
        return out

    def _on_ack(self, sender: NodeId, session: int, number: int) -> None:
        link = self._links.get(sender)
        if link is None or session != link.session:
            return
        for known in [known for known in link.unacknowledged if known <= number]:
            del link.unacknowledged[known]
            link.wait = self._first_wait

    # -- in

    def _on_frame(self, sender: NodeId, frame: Frame[Any], now: float, rng: Rng) -> Sequence[Effect]:
        link = self._links.get(sender)
        if link is None or frame.session < link.peer:
            return ()
        out: list[Effect] = []
        if frame.session > link.peer:
            if link.peer:
                out += self._begin_anew(sender, now, rng)
                link = self._links[sender]
            link.peer = frame.session
        if frame.number > link.received and len(link.early) < self._window:
            link.early[frame.number] = frame.message
        for message in list(_in_order(link)):
            out += self._inside(Received(sender, message), now, rng)
        out.append(Send(sender, Ack(link.peer, link.received), "so that it is not sent again"))
        return out

    def _begin_anew(self, peer: NodeId, now: float, rng: Rng) -> Iterable[Effect]:
        """The other end lost the link and has it again; this end was not told."""
        del self._links[peer]
        down = self._inside(LinkDown(peer), now, rng)
        self._open(peer, now)
        return [*down, *self._inside(LinkUp(peer), now, rng)]


def _in_order(link: _Link) -> Iterable[Any]:
    while link.received + 1 in link.early:
        link.received += 1
        yield link.early.pop(link.received)
