"""Requests of ours, from the first try to the final answer: challenges are answered on the way (RFC 3261, 22.2).

Whoever asks gets one final answer or one timeout; a request that was challenged is sent again with credentials, a new
branch and the next number. One challenge of each kind is answered, and one more if the nonce was only stale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from recado.protocols.sip.address import Address
from recado.protocols.sip.digest import Authenticator, is_stale
from recado.protocols.sip.messages import Request, Response
from recado.protocols.sip.transactions import Transaction, Transactions
from recado.protocols.sip.wire import Wire

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
    def __init__(self, wire: Wire, transactions: Transactions, authenticator: Authenticator) -> None:
        self._wire, self._transactions, self._authenticator = wire, transactions, authenticator

    def send(self, out: Outgoing) -> Outgoing:
        self._authenticator.sign(out.request, self._wire.rng)
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
