"""The four transaction machines of RFC 3261, section 17, as tables; with the Accepted state of RFC 6026.

``TABLE[kind][state, input]`` is the next state and what is done on the way. ``docs/sip.md`` draws its diagrams from
these tables. Inputs that a state does not list change nothing.

Inputs of a client: ``1xx``, ``2xx``, ``3xx-6xx`` (a response came), of a server: ``request`` (it came again), ``ack``,
``send 1xx``, ``send 2xx``, ``send 3xx-6xx`` (the user agent answers); of both: a letter (that timer is due) and
``error`` (the transport cannot send). Actions: ``send`` what the transaction keeps, ``ack`` a refusal, ``tell`` the
user agent what came, tell it about a ``timeout``, and ``set X``: start timer X.

A state keeps the timers that ``ALIVE`` names; entering it stops all others.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from recado.protocols.sip.limits import SipTimers

Kind: TypeAlias = Literal["invite client", "client", "invite server", "server"]
Step: TypeAlias = tuple[str, tuple[str, ...]]

START: dict[Kind, Step] = {
    "invite client": ("calling", ("set A", "set B", "send")),
    "client": ("trying", ("set E", "set F", "send")),
    "invite server": ("proceeding", ("set 100", "tell")),
    "server": ("trying", ("tell",)),
}

TABLE: dict[Kind, dict[tuple[str, str], Step]] = {
    "invite client": {
        ("calling", "A"): ("calling", ("set A", "send")),
        ("calling", "B"): ("terminated", ("timeout",)),
        ("calling", "error"): ("terminated", ("timeout",)),
        ("calling", "1xx"): ("proceeding", ("tell",)),
        ("calling", "2xx"): ("accepted", ("set M", "tell")),
        ("calling", "3xx-6xx"): ("completed", ("set D", "ack", "tell")),
        ("proceeding", "1xx"): ("proceeding", ("tell",)),
        ("proceeding", "2xx"): ("accepted", ("set M", "tell")),
        ("proceeding", "3xx-6xx"): ("completed", ("set D", "ack", "tell")),
        ("completed", "3xx-6xx"): ("completed", ("ack",)),
        ("completed", "error"): ("terminated", ()),
        ("completed", "D"): ("terminated", ()),
        ("accepted", "2xx"): ("accepted", ("tell",)),
        ("accepted", "M"): ("terminated", ()),
    },
    "client": {
        ("trying", "E"): ("trying", ("set E", "send")),
        ("trying", "F"): ("terminated", ("timeout",)),
        ("trying", "error"): ("terminated", ("timeout",)),
        ("trying", "1xx"): ("proceeding", ("tell",)),
        ("trying", "2xx"): ("completed", ("set K", "tell")),
        ("trying", "3xx-6xx"): ("completed", ("set K", "tell")),
        ("proceeding", "E"): ("proceeding", ("set E", "send")),
        ("proceeding", "F"): ("terminated", ("timeout",)),
        ("proceeding", "error"): ("terminated", ("timeout",)),
        ("proceeding", "1xx"): ("proceeding", ("tell",)),
        ("proceeding", "2xx"): ("completed", ("set K", "tell")),
        ("proceeding", "3xx-6xx"): ("completed", ("set K", "tell")),
        ("completed", "K"): ("terminated", ()),
    },
    "invite server": {
        ("proceeding", "request"): ("proceeding", ("send",)),
        ("proceeding", "100"): ("proceeding", ("trying",)),
        ("proceeding", "send 1xx"): ("proceeding", ("send",)),
        ("proceeding", "send 2xx"): ("accepted", ("set L", "send")),
        ("proceeding", "send 3xx-6xx"): ("completed", ("set G", "set H", "send")),
        ("completed", "request"): ("completed", ("send",)),
        ("completed", "G"): ("completed", ("set G", "send")),
        ("completed", "H"): ("terminated", ()),
        ("completed", "error"): ("terminated", ()),
        ("completed", "ack"): ("confirmed", ("set I",)),
        ("confirmed", "I"): ("terminated", ()),
        ("accepted", "send 2xx"): ("accepted", ("send",)),
        ("accepted", "L"): ("terminated", ()),
    },
    "server": {
        ("trying", "send 1xx"): ("proceeding", ("send",)),
        ("trying", "send 2xx"): ("completed", ("set J", "send")),
        ("trying", "send 3xx-6xx"): ("completed", ("set J", "send")),
        ("proceeding", "request"): ("proceeding", ("send",)),
        ("proceeding", "send 1xx"): ("proceeding", ("send",)),
        ("proceeding", "send 2xx"): ("completed", ("set J", "send")),
        ("proceeding", "send 3xx-6xx"): ("completed", ("set J", "send")),
        ("completed", "request"): ("completed", ("send",)),
        ("completed", "error"): ("terminated", ()),
        ("completed", "J"): ("terminated", ()),
    },
}

ALIVE: dict[tuple[str, str], tuple[str, ...]] = {
    ("invite client", "calling"): ("A", "B"),
    ("invite client", "completed"): ("D",),
    ("invite client", "accepted"): ("M",),
    ("client", "trying"): ("E", "F"),
    ("client", "proceeding"): ("E", "F"),
    ("client", "completed"): ("K",),
    ("invite server", "proceeding"): ("100",),
    ("invite server", "completed"): ("G", "H"),
    ("invite server", "confirmed"): ("I",),
    ("invite server", "accepted"): ("L",),
    ("server", "completed"): ("J",),
}


def duration(timer: str, timers: SipTimers, repeats: int, *, reliable: bool, state: str) -> float | None:
    """Seconds until a timer is due, after so many earlier ones; None: not used on a reliable transport (17.1, 17.2).

    Where the RFC waits only for late copies, a reliable transport need not wait at all.
    """
    match timer:
        case "A":
            return None if reliable else float(timers.t1 * 2**repeats)
        case "E" if state == "proceeding":
            return None if reliable else timers.t2
        case "E" | "G":
            return None if reliable else min(float(timers.t1 * 2 ** min(repeats, 30)), timers.t2)
        case "D" | "J":
            return 0.0 if reliable else timers.patience
        case "I" | "K":
            return 0.0 if reliable else timers.t4
        case "100":
            return timers.trying
    assert timer in ("B", "F", "H", "L", "M")
    return timers.patience


def status_class(status: int) -> str:
    return "1xx" if status < 200 else "2xx" if status < 300 else "3xx-6xx"
