"""A registrar and proxy as a machine, so that users find each other (RFC 3261, sections 10.3 and 16).

It keeps no transactions (16.11): a request that comes again goes out again with the same branch, which is drawn from
the one it came with, and responses find their way back by Via. So it has nothing to lose, and all repeating is done
by the user agents' timers. Requests for a user of its domains go to the contact that was registered
last; which one that was is remembered for a while, so that CANCEL, ACK and copies follow their INVITE.

It is no open relay: what is neither for a user of its domains nor inside a dialog that it let pass is refused, and so
is what brings a route of its own. Dialogs are known by the Record-Route that the proxy puts into them, which is signed
for their Call-ID. A response goes back only if it answers a request that went out from here: its Via is signed for
the one below it. Where requests may go at all is decided below, by whoever sends (``recado.net.sip``).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from recado.protocols.machine import Asked, Effect, Received, Rng, Stimulus, TimerFired
from recado.protocols.sip.checks import challenge, check_request, check_response, complaint, refuse
from recado.protocols.sip.digest import Guard
from recado.protocols.sip.events import MoveTo, Step
from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.messages import (
    COOKIE,
    BadRequestError,
    Request,
    Response,
    Via,
    read_message,
    read_via,
)
from recado.protocols.sip.text import SipError, param, read_number, write_params
from recado.protocols.sip.uri import (
    TRANSPORTS,
    Address,
    NameAddr,
    SipUri,
    add_brackets,
    address_of_record,
    read_name_addr,
    read_sip_uri,
    same_uri,
)

# --- Who is where: the bindings of a registrar (RFC 3261, section 10.3) ----------------------------------------------
#
# An address of record has several contacts, each with an expiry. A REGISTER is carried out whole or not at all. One
# that comes late is refused: a device counts up its REGISTERs under one Call-ID, and if any of its contacts was told
# by a later one, this would bring an address back that it has left. Expired bindings are gone for whoever looks, and
# are swept out now and then.


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
            after = self._merge(before, [read_name_addr(value) for value in values], request, source, now)
        self._store(user, after)
        return sorted(after, key=lambda one: one.rank, reverse=True)

    def _check_star(self, request: Request) -> None:
        if request.headers.get("expires") != "0":
            raise SipError("the Contact * takes all contacts away; it needs Expires: 0")

    def _merge(
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
        hop = _choose_hop(read_sip_uri(str(contact.uri)).address, request, source)
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


def _choose_hop(contact: Address, request: Request, source: Address) -> Address:
    """A device behind a NAT writes an address into Via and Contact that it is not seen at (mobility document, 12)."""
    if contact.transport == source.transport == "tls":
        return source  # only the connection that it opened leads to a device that has no certificate
    behind = request.via.host == contact.host != source.host
    return source if behind and contact.transport == source.transport else contact


# --- The registrar and proxy -----------------------------------------------------------------------------------------

SWEEP = ("sweep",)
SWEEP_SECONDS = 60.0
_REMEMBERED = 10_000


class Proxy:
    def __init__(
        self,
        local: Address,
        domains: tuple[str, ...],
        key: bytes,
        *,
        guard: Guard | None = None,
        location: Location | None = None,
        limits: SipLimits = LIMITS,
    ) -> None:
        """``key`` is a secret that signs routes; with a guard, REGISTER and calls need credentials."""
        self.tls_port = 0
        """Where it is reached over TLS, if it is; whoever listens there sets it."""
        self.location = location or Location(limits)
        self._step, self._key, self._guard, self._limits = Step(local), key, guard, limits
        self._domains = tuple(domain.lower() for domain in domains)
        self._followed: dict[str, tuple[str, Address]] = {}

    def handle(self, stimulus: Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        """One step. Nothing raises but a request that a proxy does not know. What fails to arrive is ignored: the user
        agents notice by themselves.
        """
        self._step.begin(now, rng)
        match stimulus:
            case Received(Address() as source, bytes() as data):
                self._receive(data, source)
            case TimerFired(key) if key in self._step.timers:
                self._step.timers.clear()
                self.location.sweep(now)
                self._set_sweep()
            case Asked(MoveTo(local)):
                self._step.local = local
            case Asked(request):
                raise SipError(f"a proxy knows no request {type(request).__name__}")
        return self._step.take()

    def inspect(self) -> dict[str, Any]:
        return {
            "local": str(self._step.local),
            "users": len(self.location),
            "calls": len(self._followed),
            "timers": [" ".join(key) for key in self._step.timers],
        }

    def _receive(self, data: bytes, source: Address) -> None:
        if not data.strip(b"\r\n\0 "):
            return
        try:
            message = read_message(data, self._limits)
            if isinstance(message, Response):
                check_response(message)
                self._back(message)
            else:
                self._receive_request(message, source)
        except SipError as error:
            self._complain(error, source)

    # -- requests

    def _receive_request(self, request: Request, source: Address) -> None:
        try:
            check_request(request)
            via = request.via.stamp(source)
            request.headers.pop("via")
            request.headers.push("via", str(via))
            self._serve(request, source)
        except TooBriefError as error:
            self._answer(refuse(request, error.status, ("min-expires", str(error.least))), source)
        except SipError as error:
            raise BadRequestError(str(error), error.status, request.headers) from error

    def _serve(self, request: Request, source: Address) -> None:
        inside = self._take_own_routes(request)
        uri = read_sip_uri(request.uri)
        if request.method == "REGISTER" and self._is_own(uri):
            self._register(request, source)
        elif self._is_own(uri) and uri.user is None and "route" not in request.headers:
            self._serve_itself(request, source)
        elif inside or (self._is_own(uri) and "route" not in request.headers):
            self._forward(request, source, inside=inside)
        elif request.method != "ACK":
            self._answer(refuse(request, 403), source)

    def _is_own(self, uri: SipUri) -> bool:
        if uri.host.lower() in self._domains:
            return True
        return uri.host == self._step.local.host and uri.address.port in (self._step.local.port, self.tls_port)

    def _take_own_routes(self, request: Request) -> bool:
        """Is the request inside a dialog that came through here? Our routes have served when they are on top."""
        inside = False
        while "route" in request.headers:
            uri = read_name_addr(request.headers.values("route")[0]).uri
            if not isinstance(uri, SipUri) or not self._is_own(uri):
                break
            request.headers.pop("route")
            inside = inside or hmac.compare_digest(
                (param(uri.params, "k") or "").encode("utf-8", "surrogateescape"),
                self._sign(f"route {request.call_id}").encode(),
            )
        return inside

    def _sign(self, text: str) -> str:
        return hmac.new(self._key, text.encode("utf-8", "surrogateescape"), "sha256").hexdigest()[:32]

    def _serve_itself(self, request: Request, source: Address) -> None:
        if request.method == "ACK":
            return
        status = 200 if request.method == "OPTIONS" else 405
        self._answer(refuse(request, status, ("allow", "REGISTER, OPTIONS")), source)

    def _answer(self, response: Response, source: Address) -> None:
        to = source if source.reliable else response.via.reply_to._replace(transport=source.transport)
        self._step.transmit(response.write(), to, f"{response.status} of the proxy")

    def _complain(self, error: SipError, source: Address) -> None:
        answer = complaint(error)
        if answer is not None:
            self._step.transmit(answer.write(), source, "it was not understood")

    # -- the registrar

    def _register(self, request: Request, source: Address) -> None:
        refused = None
        if self._guard is not None:
            refused = challenge(request, source, self._guard, "authorization", self._step.now)
        if request.headers.values("require"):
            refused = refuse(request, 420, ("unsupported", ", ".join(request.headers.values("require"))))
        user = address_of_record(read_sip_uri(str(request.receiver.uri)))
        if refused is None and user != address_of_record(request.sender.uri):
            refused = refuse(request, 403)
        if refused is None and not self._is_own(read_sip_uri(user)):
            refused = refuse(request, 404)
        if refused is None:
            bindings = self.location.register(user, request, source, self._step.now)
            self._set_sweep()
            refused = self._list_bindings(request, bindings)
        self._answer(refused, source)

    def _set_sweep(self) -> None:
        if len(self.location) and SWEEP not in self._step.timers:
            self._step.set_timer(SWEEP, SWEEP_SECONDS)

    def _list_bindings(self, request: Request, bindings: list[Binding]) -> Response:
        made = refuse(request, 200)
        for one in bindings:
            left = max(1, round(one.expires_at - self._step.now))
            params = (*one.contact.params, ("expires", str(left)))
            made.headers.add("contact", str(NameAddr(one.contact.uri, one.contact.display, params)))
        return made

    # -- forwarding

    def _forward(self, request: Request, source: Address, *, inside: bool) -> None:
        hops = int(request.headers.get("max-forwards") or "70")
        if request.method == "ACK":
            if self._is_unasked(request, inside=inside):
                return
        else:
            refused = self._refusal(request, source, hops, inside=inside)
            if refused is not None:
                self._answer(refused, source)
                return
        branch = self._branch(request)
        request.uri, to = self._target(request, branch)
        if (to.host, to.port) == (self._step.local.host, self._step.local.port):
            raise SipError("the request would come back to this proxy", 482)
        request.headers.set("max-forwards", str(max(0, hops - 1)))
        if request.method == "INVITE":
            self._record_route(request, source, to)
        request.headers.push("via", str(self._own_via(to.transport, branch, request.via)))
        self._step.transmit(request.write(), to, f"{request.method} on its way")

    def _refusal(self, request: Request, source: Address, hops: int, *, inside: bool) -> Response | None:
        if hops == 0:
            return refuse(request, 483)
        if request.headers.values("proxy-require"):
            return refuse(request, 420, ("unsupported", ", ".join(request.headers.values("proxy-require"))))
        if request.method == "CANCEL":  # it cannot be challenged (RFC 3261, 22.1)
            return refuse(request, 481) if self._is_unasked(request, inside=inside) else None
        if self._guard is not None and not inside:
            return challenge(request, source, self._guard, "proxy-authorization", self._step.now)
        return None

    def _is_unasked(self, request: Request, *, inside: bool) -> bool:
        """Does it follow no INVITE that was let pass? Strangers reach nobody by what needs no credentials."""
        return self._guard is not None and not inside and self._branch(request) not in self._followed

    def _branch(self, request: Request) -> str:
        """The same for all copies, for the CANCEL and for the ACK of a refusal: they have the same branch."""
        via = request.via
        text = via.branch or f"{request.call_id} {request.sender.tag} {request.cseq.number}"
        return COOKIE + self._sign(f"branch {text} {via.sent_by}")

    def _own_via(self, transport: str, branch: str, below: Via) -> Via:
        """Signed for the Via below it, so that it is known again when an answer brings it."""
        local, signature = (
            self._step.local,
            self._sign(f"via {branch} {below.transport} {below.reply_to} {below.branch}"),
        )
        return Via(transport.upper(), local.host, local.port, (("branch", branch), ("k", signature)))

    def _target(self, request: Request, branch: str) -> tuple[str, Address]:
        known = self._followed.get(branch)
        if known is None:
            known = self._look_up(request)
            if request.method == "INVITE":
                self._followed[branch] = known
                if len(self._followed) > _REMEMBERED:
                    del self._followed[next(iter(self._followed))]
        return known

    def _look_up(self, request: Request) -> tuple[str, Address]:
        routes = request.headers.values("route")
        if routes:
            return request.uri, read_sip_uri(str(read_name_addr(routes[0]).uri)).address
        uri = read_sip_uri(request.uri)
        if not self._is_own(uri):
            return request.uri, self._hop_of_contact(uri)
        found = self.location.bindings(address_of_record(uri), self._step.now)
        if not found:
            raise SipError("no device of this user is registered", 480)
        return str(found[0].uri), found[0].hop

    def _hop_of_contact(self, uri: SipUri) -> Address:
        """A contact behind a NAT is reached where it was seen."""
        return self.location.hop_of(str(uri)) or uri.address

    def _record_route(self, request: Request, source: Address, to: Address) -> None:
        """Later requests of the dialog come through here; on two transports, once for each (RFC 5658)."""
        for transport in dict.fromkeys((source.transport, to.transport)):
            params = (("transport", transport), ("lr", None), ("k", self._sign(f"route {request.call_id}")))
            assert transport in TRANSPORTS
            port = self.tls_port if transport == "tls" else self._step.local.port
            where = f"{add_brackets(self._step.local.host)}:{port}"
            request.headers.push("record-route", f"<sip:{where}{write_params(params)}>")

    # -- responses

    def _back(self, response: Response) -> None:
        """Only what has our Via on top (16.11), to the one below it, and only if we wrote the two together."""
        own = read_via(response.headers.pop("via"))
        if (own.host, own.port) != (self._step.local.host, self._step.local.port) or "via" not in response.headers:
            return
        via = response.via
        signed = self._own_via(own.transport, own.branch or "", via)
        if not hmac.compare_digest(_signature(own), _signature(signed)):
            return
        self._step.transmit(response.write(), via.reply_to, f"{response.status} on its way back")


def _signature(via: Via) -> bytes:
    return (param(via.params, "k") or "").encode("utf-8", "surrogateescape")
