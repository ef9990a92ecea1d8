"""Who is where: the bindings of a registrar (RFC 3261, section 10.3).

An address of record has several contacts, each with an expiry. A REGISTER is carried out whole or not at all. One that
comes late is refused: a device counts up its REGISTERs under one Call-ID, and if any of its contacts was told by a
later one, this would bring an address back that it has left. Expired bindings are gone for whoever looks, and
are swept out now and then.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from recado.protocols.sip.address import Address
from recado.protocols.sip.errors import SipError
from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.messages import Request
from recado.protocols.sip.text import param, read_number
from recado.protocols.sip.uri import NameAddr, SipUri, read_name_addr, read_sip_uri, same_uri


class Binding(msgspec.Struct, frozen=True):
    contact: NameAddr
    hop: Address
    """Where requests go: the contact's address, or where the device was seen if it is behind a NAT."""
    expires_at: float
    call_id: str
    cseq: int
    since: float

    @property
    def uri(self) -> SipUri:
        return read_sip_uri(str(self.contact.uri))

    @property
    def rank(self) -> tuple[float, float]:
        """The higher the better: what the device prefers, then what was told last."""
        try:
            return float(param(self.contact.params, "q") or "1"), self.since
        except ValueError:
            return 1.0, self.since


class TooBriefError(SipError):
    def __init__(self, least: int) -> None:
        super().__init__(f"a registration has to last at least {least} seconds", 423)
        self.least = least


class Location:
    def __init__(self, limits: SipLimits = LIMITS, *, least: int = 5, usual: int = 300, most: int = 3_600) -> None:
        self._limits, self.least, self._usual, self._most = limits, least, usual, most
        self._users: dict[str, tuple[Binding, ...]] = {}
        self._seen_at: dict[str, Address] = {}

    def __len__(self) -> int:
        return len(self._users)

    def bindings(self, user: str, now: float) -> list[Binding]:
        """Those that are alive, the best first."""
        alive = [one for one in self._users.get(user, ()) if one.expires_at > now]
        return sorted(alive, key=lambda one: one.rank, reverse=True)

    def users(self, now: float) -> dict[str, list[Binding]]:
        return {user: found for user in self._users if (found := self.bindings(user, now))}

    def hop_of(self, contact: str) -> Address | None:
        """Where the device with this contact was seen, if that is not where the contact says."""
        return self._seen_at.get(contact)

    def sweep(self, now: float) -> None:
        self._users = {user: tuple(found) for user, found in self.users(now).items()}
        self._seen_at = _behind_nat([one for found in self._users.values() for one in found])

    def register(self, user: str, request: Request, source: Address, now: float) -> list[Binding]:
        """Carry out a REGISTER and give all bindings of the user; raises SipError and changes nothing."""
        before = self.bindings(user, now)
        values = request.headers.values("contact")
        if not values:
            return before
        if any(one.call_id == request.call_id and one.cseq >= request.cseq.number for one in before):
            raise SipError("this REGISTER is older than what is known", 500)
        if values == ["*"]:
            self._check_star(request)
            after: list[Binding] = []
        else:
            after = self._merged(before, [read_name_addr(value) for value in values], request, source, now)
        self._store(user, after)
        return sorted(after, key=lambda one: one.rank, reverse=True)

    def _check_star(self, request: Request) -> None:
        if request.headers.get("expires") != "0":
            raise SipError("the Contact * takes all contacts away; it needs Expires: 0")

    def _merged(
        self, before: list[Binding], contacts: Iterable[NameAddr], request: Request, source: Address, now: float
    ) -> list[Binding]:
        after = list(before)
        for contact in contacts:
            after = [one for one in after if not same_uri(one.contact.uri, contact.uri)]
            seconds = self._seconds(contact, request)
            if seconds:
                after.append(self._binding(contact, request, source, now, seconds))
        return after

    def _seconds(self, contact: NameAddr, request: Request) -> int:
        text = param(contact.params, "expires") or request.headers.get("expires") or str(self._usual)
        seconds = read_number(text, "expires", 2**32 - 1)
        if 0 < seconds < self.least:
            raise TooBriefError(self.least)
        return min(seconds, self._most)

    def _binding(self, contact: NameAddr, request: Request, source: Address, now: float, seconds: int) -> Binding:
        kept = tuple(one for one in contact.params if one[0] != "expires")
        hop = _seen_at(read_sip_uri(str(contact.uri)).address, request, source)
        address = NameAddr(contact.uri, contact.display, kept)
        return Binding(address, hop, now + seconds, request.call_id, request.cseq.number, now)

    def _store(self, user: str, bindings: list[Binding]) -> None:
        if len(bindings) > self._limits.contacts:
            raise SipError(f"more than {self._limits.contacts} contacts of one user", 403)
        if bindings and user not in self._users and len(self._users) >= self._limits.users:
            raise SipError("the registrar is full", 503)
        for one in self._users.pop(user, ()):
            self._seen_at.pop(str(one.contact.uri), None)
        if bindings:
            self._users[user] = tuple(bindings)
        self._seen_at |= _behind_nat(bindings)


def _behind_nat(bindings: list[Binding]) -> dict[str, Address]:
    return {str(one.contact.uri): one.hop for one in bindings if one.hop != one.uri.address}


def _seen_at(contact: Address, request: Request, source: Address) -> Address:
    """A device behind a NAT writes an address into Via and Contact that it is not seen at (mobility document, 12)."""
    behind = request.via.host == contact.host != source.host
    return source if behind and contact.transport == source.transport else contact
