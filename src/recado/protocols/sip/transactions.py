"""The transaction layer (RFC 3261, section 17): carries requests and responses over a transport that loses and repeats.

It runs the tables of ``tables`` for every request that is under way. Above it is a ``TransactionUser``: a user agent.
Messages that come in are expected to be checked. The layer stamps the topmost Via of requests with where they come
from, and answers go there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from recado.protocols.sip.digest import Authenticator, is_stale
from recado.protocols.sip.events import Step, TimerKey
from recado.protocols.sip.limits import SipLimits, SipTimers
from recado.protocols.sip.messages import Request, Response, Via, reply
from recado.protocols.sip.uri import Address

# --- The four transaction machines of RFC 3261, section 17, as tables; with the Accepted state of RFC 6026 -----------
#
# ``TABLE[kind][state, input]`` is the next state and what is done on the way. ``docs/sip.md`` draws its diagrams from
# these tables. Inputs that a state does not list change nothing.
#
# Inputs of a client: ``1xx``, ``2xx``, ``3xx-6xx`` (a response came), of a server: ``request`` (it came again),
# ``ack``, ``send 1xx``, ``send 2xx``, ``send 3xx-6xx`` (the user agent answers); of both: a letter (that timer is due)
# and ``error`` (the transport cannot send). Actions: ``send`` what the transaction keeps, ``ack`` a refusal, ``tell``
# the user agent what came, tell it about a ``timeout``, and ``set X``: start timer X.
#
# A state keeps the timers that ``ALIVE`` names; entering it stops all others.


Kind: TypeAlias = Literal["invite client", "client", "invite server", "server"]
Transition: TypeAlias = tuple[str, tuple[str, ...]]

START: dict[Kind, Transition] = {
    "invite client": ("calling", ("set A", "set B", "send")),
    "client": ("trying", ("set E", "set F", "send")),
    "invite server": ("proceeding", ("set 100", "tell")),
    "server": ("trying", ("tell",)),
}

TABLE: dict[Kind, dict[tuple[str, str], Transition]] = {
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


# --- The transaction layer (RFC 3261, section 17): carries requests and responses over a transport that loses and
# repeats


@dataclass(slots=True, eq=False)
class Transaction:
    kind: Kind
    key: str
    request: Request
    peer: Address
    state: str = ""
    kept: bytes = b""
    """What is sent again: the request of a client, the last response of a server."""
    repeats: dict[str, int] = field(default_factory=dict)
    owner: Any = None
    """Whatever the user agent wants to find again."""

    @property
    def over(self) -> bool:
        return self.state == "terminated"


class TransactionUser(Protocol):
    def screen(self, request: Request, source: Address) -> Response | None:
        """A refusal that needs no memory, before a transaction is made for the request; or None."""
        ...

    def on_request(self, transaction: Transaction) -> None: ...
    def on_response(self, transaction: Transaction, response: Response) -> None: ...
    def on_timeout(self, transaction: Transaction) -> None: ...
    def on_ack(self, request: Request) -> None: ...
    def on_stray(self, response: Response) -> None:
        """A 2xx to an INVITE whose transaction is over."""
        ...


class Transactions:
    def __init__(self, step: Step, timers: SipTimers, limits: SipLimits, user: TransactionUser) -> None:
        self._step, self._timers, self._limits, self._user = step, timers, limits, user
        self.clients: dict[str, Transaction] = {}
        self.servers: dict[str, Transaction] = {}

    # -- requests of ours

    def send(self, request: Request, to: Address, owner: Any) -> Transaction:
        """Begin a client transaction; the request gets a Via with a new branch."""
        via = self._step.new_via(to.transport)
        request.headers.push("via", str(via))
        return self._begin(request, via, to, owner)

    def send_cancel(self, invite: Transaction, owner: Any) -> None:
        """CANCEL has the branch of what it cancels (9.1)."""
        request = Request(method="CANCEL", uri=invite.request.uri)
        request.headers.add("via", invite.request.headers.values("via")[0])
        for name in ("max-forwards", "from", "to", "call-id", "route"):
            for value in invite.request.headers.all(name):
                request.headers.add(name, value)
        request.headers.add("cseq", f"{invite.request.cseq.number} CANCEL")
        self._begin(request, request.via, invite.peer, owner)

    def _begin(self, request: Request, via: Via, to: Address, owner: Any) -> Transaction:
        kind: Kind = "invite client" if request.method == "INVITE" else "client"
        made = Transaction(kind, f"{via.branch} {request.method}", request, to, kept=request.write(), owner=owner)
        self.clients[made.key] = made
        self._enter(made, *START[kind], None)
        return made

    def abandon(self, transaction: Transaction) -> None:
        """Forget it without a word: nobody waits for its answer any more."""
        self._enter(transaction, "terminated", (), None)

    # -- answers of ours

    def respond(self, transaction: Transaction, response: Response) -> None:
        transaction.kept = response.write()
        self._advance(transaction, f"send {status_class(response.status)}", None)

    # -- what comes in

    def receive_response(self, response: Response) -> None:
        via = response.via
        found = self.clients.get(f"{via.branch} {response.cseq.method}") if via.branch else None
        if found is not None:
            self._advance(found, status_class(response.status), response)
        elif response.cseq.method == "INVITE" and 200 <= response.status < 300:
            self._user.on_stray(response)

    def receive_request(self, request: Request, source: Address) -> None:
        via = request.via.stamp(source)
        request.headers.pop("via")
        request.headers.push("via", str(via))
        if request.method == "ACK":
            self._receive_ack(request)
            return
        key = server_key(request, request.method)
        found = self.servers.get(key)
        if found is not None:
            found.peer = self._answer_address(via, source)
            self._advance(found, "request", None)
            return
        refusal = self._refusal(request, source)
        if refusal is not None:
            self._step.transmit(refusal.write(), self._answer_address(via, source), "refused without a transaction")
            return
        kind: Kind = "invite server" if request.method == "INVITE" else "server"
        made = Transaction(kind, key, request, self._answer_address(via, source))
        self.servers[key] = made
        self._enter(made, *START[kind], request)

    def _refusal(self, request: Request, source: Address) -> Response | None:
        if len(self.servers) >= self._limits.transactions:
            full = reply(request.headers, 503, "full")
            full.headers.add("retry-after", "5")
            return full
        return self._user.screen(request, source)

    def _answer_address(self, via: Via, source: Address) -> Address:
        """On the connection that the request came on; over datagrams as Via says."""
        return source if source.reliable else via.reply_to._replace(transport=source.transport)

    def _receive_ack(self, request: Request) -> None:
        found = self.servers.get(server_key(request, "INVITE"))
        if found is None or found.state == "accepted":
            self._user.on_ack(request)
        else:
            self._advance(found, "ack", None)

    def invite_of(self, cancel: Request) -> Transaction | None:
        return self.servers.get(server_key(cancel, "INVITE"))

    def unreachable(self, address: Address) -> None:
        for table in (self.clients, self.servers):
            for transaction in [one for one in table.values() if one.peer == address]:
                self._advance(transaction, "error", None)

    # -- the machine

    def fire(self, key: TimerKey) -> None:
        """A timer of the layer: ("client" or "server", transaction, letter)."""
        side, name, letter = key
        found = (self.clients if side == "client" else self.servers).get(name)
        if found is not None:
            self._advance(found, letter, None)

    def _advance(self, transaction: Transaction, what: str, message: Any) -> None:
        found = TABLE[transaction.kind].get((transaction.state, what))
        if found is not None:
            self._enter(transaction, *found, message)

    def _enter(self, transaction: Transaction, state: str, actions: tuple[str, ...], message: Any) -> None:
        before, transaction.state = transaction.state, state
        if state == "terminated":
            self._table(transaction).pop(transaction.key, None)
        if state != before:
            for letter in ALIVE.get((transaction.kind, before), ()):
                if letter not in ALIVE.get((transaction.kind, state), ()):
                    self._step.cancel_timer(self._timer(transaction, letter))
        for action in actions:
            self._act(transaction, action, message)

    def _table(self, transaction: Transaction) -> dict[str, Transaction]:
        return self.clients if "client" in transaction.kind else self.servers

    def _timer(self, transaction: Transaction, letter: str) -> TimerKey:
        return ("client" if "client" in transaction.kind else "server", transaction.key, letter)

    def _act(self, transaction: Transaction, action: str, message: Any) -> None:
        match action:
            case "send":
                if transaction.kept:
                    self._step.transmit(transaction.kept, transaction.peer, f"{transaction.kind}: {transaction.state}")
            case "tell" if "client" in transaction.kind:
                self._user.on_response(transaction, message)
            case "tell":
                self._user.on_request(transaction)
            case "timeout":
                self._user.on_timeout(transaction)
            case "ack":
                ack = ack_of_refusal(transaction.request, message)
                self._step.transmit(ack.write(), transaction.peer, "a refusal is acknowledged")
            case "trying":
                transaction.kept = transaction.kept or reply(transaction.request.headers, 100).write()
                self._step.transmit(transaction.kept, transaction.peer, "the user agent takes its time")
            case _:
                self._set(transaction, action.removeprefix("set "))

    def _set(self, transaction: Transaction, letter: str) -> None:
        repeats = transaction.repeats.get(letter, 0)
        transaction.repeats[letter] = repeats + 1
        reliable = transaction.peer.reliable
        seconds = duration(letter, self._timers, repeats, reliable=reliable, state=transaction.state)
        if seconds is not None:
            self._step.set_timer(self._timer(transaction, letter), seconds)


def server_key(request: Request, method: str) -> str:
    """What all copies of one request have in common (17.2.3); without a branch, as RFC 2543 has it."""
    via = request.via
    if via.branch is not None:
        return f"{via.branch} {via.sent_by.lower()} {method}"
    sender = request.sender.tag or ""
    return f"{request.call_id} {sender} {request.cseq.number} {via.sent_by.lower()} {method}"


def ack_of_refusal(invite: Request, refusal: Response) -> Request:
    """The ACK of a final response other than 2xx belongs to the INVITE's transaction (17.1.1.3)."""
    ack = Request(method="ACK", uri=invite.uri)
    ack.headers.add("via", invite.headers.values("via")[0])
    for name in ("max-forwards", "from", "call-id", "route"):
        for value in invite.headers.all(name):
            ack.headers.add(name, value)
    ack.headers.add("to", refusal.headers.one("to"))
    ack.headers.add("cseq", f"{invite.cseq.number} ACK")
    return ack


# --- Requests of ours, from the first try to the final answer: challenges are answered on the way (RFC 3261, 22.2)
#
# Whoever asks gets one final answer or one timeout; a request that was challenged is sent again with credentials, a new
# branch and the next number. One challenge of each kind is answered, and one more if the nonce was only stale.


_MOST_CHALLENGES = 4


class Counter(Protocol):
    local_cseq: int


class Asker(Protocol):
    def on_provisional(self, out: Outgoing, response: Response) -> None: ...
    def on_final(self, out: Outgoing, response: Response) -> None:
        """Once; but every copy of a 2xx to an INVITE, since each has to be acknowledged."""
        ...

    def on_timeout(self, out: Outgoing) -> None: ...


@dataclass(slots=True, eq=False)
class Outgoing:
    request: Request
    to: Address
    asker: Asker
    counter: Counter
    transaction: Transaction | None = None
    challenged: list[int] = field(default_factory=list)


class Requests:
    def __init__(self, step: Step, transactions: Transactions, authenticator: Authenticator) -> None:
        self._step, self._transactions, self._authenticator = step, transactions, authenticator

    def send(self, out: Outgoing) -> Outgoing:
        self._authenticator.sign(out.request, self._step.rng)
        out.transaction = self._transactions.send(out.request, out.to, out)
        return out

    def cancel(self, out: Outgoing) -> None:
        if out.transaction is not None and out.transaction.state == "proceeding":
            self._transactions.send_cancel(out.transaction, Outgoing(out.request, out.to, QUIET, out.counter))

    def abandon(self, out: Outgoing) -> None:
        if out.transaction is not None and not out.transaction.over:
            self._transactions.abandon(out.transaction)

    def on_response(self, transaction: Transaction, response: Response) -> None:
        out: Outgoing = transaction.owner
        if response.status < 200:
            out.asker.on_provisional(out, response)
        elif response.status not in (401, 407) or not self._answer(out, response):
            out.asker.on_final(out, response)

    def _answer(self, out: Outgoing, response: Response) -> bool:
        again = response.status in out.challenged
        if again and (not is_stale(response.headers) or len(out.challenged) >= _MOST_CHALLENGES):
            return False
        if out.request.method in ("CANCEL", "ACK") or not self._authenticator.learn(response.headers):
            return False
        out.challenged.append(response.status)
        out.request = out.request.copy()
        out.request.headers.pop("via")
        out.counter.local_cseq += 1
        out.request.headers.set("cseq", f"{out.counter.local_cseq} {out.request.method}")
        self.send(out)
        return True


class Quiet:
    """Asks without wanting to know."""

    def on_provisional(self, out: Outgoing, response: Response) -> None:
        pass

    def on_final(self, out: Outgoing, response: Response) -> None:
        pass

    def on_timeout(self, out: Outgoing) -> None:
        pass


QUIET = Quiet()
