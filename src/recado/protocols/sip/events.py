"""What a user agent wants done, and what it tells its application. The names are those of ``recado.protocols.sip``."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from recado.protocols.machine import Rng
from recado.protocols.sip.messages import COOKIE, Via
from recado.protocols.sip.sdp import Session
from recado.protocols.sip.uri import Address, bracketed


class Transmit(msgspec.Struct, frozen=True):
    """Send bytes. Over TCP: on the connection with that peer if there is one, or else on a new one."""

    data: bytes
    to: Address
    why: str = ""


class Registered(msgspec.Struct, frozen=True):
    """The registrar knows our contact for so many seconds; it is refreshed long before."""

    expires_seconds: float
    contacts: tuple[str, ...] = ()
    """All contacts of the user that the registrar told, of other devices too."""


class RegistrationFailed(msgspec.Struct, frozen=True):
    status: int
    reason: str
    retry_seconds: float | None
    """When it is tried again; None: never, since the answer would be the same."""


class Unregistered(msgspec.Struct, frozen=True):
    pass


class Incoming(msgspec.Struct, frozen=True):
    """Somebody wants a session: ``answer`` or ``reject`` it."""

    call: str
    user: str
    """The address of record that the caller claims; proven only if the user agent has a guard."""
    device: str | None
    remote: Session
    source: Address
    proven: bool = False


class Progress(msgspec.Struct, frozen=True):
    call: str
    status: int


class Established(msgspec.Struct, frozen=True):
    call: str
    local: Session
    remote: Session


class Updated(msgspec.Struct, frozen=True):
    """A re-INVITE of either side is complete: both count as connected, at the addresses of these descriptions."""

    call: str
    local: Session
    remote: Session


class UpdateFailed(msgspec.Struct, frozen=True):
    """Our re-INVITE was not accepted; the session is as it was."""

    call: str
    status: int
    reason: str
    retry_seconds: float | None


class Ended(msgspec.Struct, frozen=True):
    """A session, or an incoming call that was not answered yet, is over."""

    call: str
    reason: str


class Failed(msgspec.Struct, frozen=True):
    """Our call was not established. 408 with the reason ``no answer`` is our own timer."""

    call: str
    status: int
    reason: str


class OptionsAnswered(msgspec.Struct, frozen=True):
    request: str
    status: int
    """408 if nobody answered."""


Event: TypeAlias = (
    Registered
    | RegistrationFailed
    | Unregistered
    | Incoming
    | Progress
    | Established
    | Updated
    | UpdateFailed
    | Ended
    | Failed
    | OptionsAnswered
)


class Report(msgspec.Struct, frozen=True):
    fact: Event


Effect: TypeAlias = Transmit | Report


# --- What the parts of a SIP machine share: the clock of this step, chance, timers, and what has to be sent or told
#
# The machine notes ``now`` and ``rng`` here when it is called, and everything that happens in that step uses them.
# Timers are a table of deadlines with a heap beside it; an entry of the heap whose deadline is no longer the table's is
# out of date and skipped.


TimerKey: TypeAlias = tuple[str, ...]


class Timers:
    def __init__(self) -> None:
        self._deadlines: dict[TimerKey, float] = {}
        self._heap: list[tuple[float, int, TimerKey]] = []
        self._order = 0

    def __iter__(self) -> Iterator[TimerKey]:
        return iter(self._deadlines)

    def set(self, key: TimerKey, deadline: float) -> None:
        self._deadlines[key] = deadline
        self._order += 1
        heapq.heappush(self._heap, (deadline, self._order, key))
        if len(self._heap) > 64 + 4 * len(self._deadlines):
            self._rebuild()

    def cancel(self, key: TimerKey) -> None:
        self._deadlines.pop(key, None)

    def next(self) -> float | None:
        self._skip()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> TimerKey | None:
        self._skip()
        if not self._heap or self._heap[0][0] > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._deadlines[key]
        return key

    def _skip(self) -> None:
        while self._heap and self._deadlines.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    def _rebuild(self) -> None:
        """Cancelled timers stay in the heap until their time comes; too many of them are thrown out at once."""
        self._heap = [entry for entry in self._heap if self._deadlines.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)


class Wire:
    def __init__(self, local: Address) -> None:
        self.local = local
        self.timers = Timers()
        self.now = 0.0
        self.rng: Rng
        self._outbox: list[Effect] = []

    def begin(self, now: float, rng: Rng) -> None:
        self.now, self.rng = now, rng

    def transmit(self, data: bytes, to: Address, why: str) -> None:
        self._outbox.append(Transmit(data, to, why))

    def report(self, fact: Event) -> None:
        self._outbox.append(Report(fact))

    def take(self) -> list[Effect]:
        taken, self._outbox = self._outbox, []
        return taken

    def after(self, key: TimerKey, seconds: float) -> None:
        self.timers.set(key, self.now + seconds)

    def token(self) -> str:
        """A name that nobody guesses: 64 random bits."""
        return f"{self.rng.randrange(2**64):016x}"

    def new_via(self, transport: str) -> Via:
        """For a request of ours; ``rport`` asks for the answer at the address that the request is seen to come from."""
        params = (("branch", COOKIE + self.token()), ("rport", None))
        return Via(transport.upper(), self.local.host, self.local.port, params)

    def contact_host(self) -> str:
        return f"{bracketed(self.local.host)}:{self.local.port}"
