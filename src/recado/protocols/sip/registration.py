"""Keeping a registrar's binding of the user to this device fresh (mobility document, section 3.2; RFC 3261, 10.2).

One Call-ID and rising numbers for the life of a registration. After a move the request carries the new contact and,
with ``expires=0``, every older one that the registrar may still hold; they are carried until it has confirmed, so that
a second move before the first answer leaves nothing behind.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from recado.protocols.sip.events import AgentSettings, Registered, RegistrationFailed, Step, Unregistered
from recado.protocols.sip.messages import Request, Response
from recado.protocols.sip.text import SipError, param, read_number
from recado.protocols.sip.transactions import Outgoing, Requests
from recado.protocols.sip.uri import NameAddr, SipUri, read_name_addr, read_sip_uri, same_uri

REFRESH = ("register", "refresh")
_OLD_CONTACTS = 8
_LONGEST = 86_400


class Registration:
    def __init__(self, settings: AgentSettings, step: Step, requests: Requests) -> None:
        self._settings, self._step, self._requests = settings, step, requests
        self._call_id = ""
        self._instance = f'"<urn:uuid:{settings.device}>"'
        self._tidied = False
        self.local_cseq = 0
        self._tag = ""
        self._expires = settings.register_expires
        self.wanted = False
        self._contact: SipUri | None = None
        self._old: list[SipUri] = []
        self._failures = 0
        self._pending: Outgoing | None = None

    # -- what is asked for

    def start(self) -> None:
        """Now, and again whenever it is needed; also after a move."""
        self.wanted = True
        here = self.contact()
        if self._contact is not None and not same_uri(self._contact, here):
            self._old = [*self._old, self._contact][-_OLD_CONTACTS:]
        self._old = [one for one in self._old if not same_uri(one, here)]
        self._contact = here
        self._send()

    def stop(self) -> None:
        """Take our contacts away, and no others: the user may have more devices."""
        if not self.wanted:
            raise SipError("this user agent is not registered")
        self.wanted = False
        self._step.cancel_timer(REFRESH)
        self._send()

    def fire(self) -> None:
        self._send()

    def contact(self) -> SipUri:
        local = self._step.local
        params = (("transport", local.transport),) if local.reliable else ()
        return SipUri(local.host, user=self._settings.name, port=local.port, params=params)

    def _header(self, uri: SipUri, expires: int) -> str:
        """Only the contact that stays says which device it is: Kamailio finds bindings by that first.

        An old contact with the same device would take the new one away.
        """
        params = (("+sip.instance", self._instance),) if uri is self._contact else ()
        return str(NameAddr(uri, "", (*params, ("expires", str(expires)))))

    # -- requests and answers

    def _send(self) -> None:
        if self._pending is not None:
            self._requests.abandon(self._pending)
        self.local_cseq += 1
        self._pending = self._requests.send(
            Outgoing(self._request(), self._settings.home or self._domain().address, self, self)
        )

    def _domain(self) -> SipUri:
        """What a REGISTER is for: the URI of the user without the user."""
        return msgspec.structs.replace(read_sip_uri(self._settings.user), user=None, password=None, headers=None)

    def _request(self) -> Request:
        assert self._contact is not None
        if not self._call_id:
            # Not the same after a restart, since the numbers begin again.
            self._call_id, self._tag = f"reg-{self._settings.device}-{self._step.new_name()}", self._step.new_name()
        user = f"<{self._settings.aor}>"
        made = Request(method="REGISTER", uri=str(self._domain()))
        for name, value in (
            ("max-forwards", "70"),
            ("from", f"{user};tag={self._tag}"),
            ("to", user),
            ("call-id", self._call_id),
            ("cseq", f"{self.local_cseq} REGISTER"),
            ("contact", self._header(self._contact, self._expires if self.wanted else 0)),
            *(("contact", self._header(old, 0)) for old in self._old),
        ):
            made.headers.add(name, value)
        return made

    def on_provisional(self, out: Outgoing, response: Response) -> None:
        pass

    def on_final(self, out: Outgoing, response: Response) -> None:
        self._pending = None
        if 200 <= response.status < 300:
            self._confirm(response)
        elif response.status == 423 and self._raise_expires(response):
            self._send()
        else:
            self._fail(response.status, response.reason, again=response.status >= 500 or response.status == 408)

    def on_timeout(self, out: Outgoing) -> None:
        self._pending = None
        self._fail(408, "no answer", again=True)

    def _confirm(self, response: Response) -> None:
        self._failures = 0
        self._old = []
        if not self.wanted:
            self._contact = None
            self._step.report(Unregistered())
            return
        granted = self._granted_seconds(response)
        self._step.set_timer(REFRESH, granted * self._settings.refresh_ratio)
        self._step.report(Registered(granted, tuple(response.headers.values("contact"))))
        self._tidy(response)

    def _tidy(self, response: Response) -> None:
        """A REGISTER that came late may have brought an old contact of this device back: once more, without it."""
        contacts = [read_name_addr(value) for value in response.headers.values("contact")]
        ours = [one.uri for one in contacts if param(one.params, "+sip.instance") == self._instance]
        old = [one for one in ours if isinstance(one, SipUri) and self._contact and not same_uri(one, self._contact)]
        tried, self._tidied = self._tidied, bool(old)
        if old and not tried:
            self._old = old[:_OLD_CONTACTS]
            self._send()

    def _granted_seconds(self, response: Response) -> float:
        """What the registrar says about our contact, or about all of them, or what we asked for; never nothing."""
        found: str | None = None
        for value in response.headers.values("contact"):
            contact = read_name_addr(value)
            if self._contact is not None and same_uri(contact.uri, self._contact):
                found = param(contact.params, "expires")
        found = found or response.headers.get("expires") or str(self._expires)
        return max(1.0, float(read_number(found, "expires", 2**32 - 1)))

    def _raise_expires(self, response: Response) -> bool:
        least = int(response.headers.get("min-expires") or "0")
        if not self._expires < least <= _LONGEST:
            return False
        self._expires = least
        return True

    def _fail(self, status: int, reason: str, *, again: bool) -> None:
        """Without an end while it is wanted; a goodbye that nobody hears is not repeated, it expires."""
        if not self.wanted:
            self._contact = None
            self._step.report(Unregistered())
            return
        timers = self._settings.timers
        wait = min(timers.register_retry * 2 ** min(self._failures, 30), timers.register_retry_most) if again else None
        self._failures += 1
        if wait is not None:
            self._step.set_timer(REFRESH, wait)
        self._step.report(RegistrationFailed(status, reason, wait))


# --- Has the device moved? The decision of the address monitor (mobility document, section 3.4) ----------------------
#
# Whoever drives it looks up the local address from time to time, or when the system tells of a change, and asks what
# follows from it. A link that comes back is news even at the same address: the other side may have given the device up,
# and a session update has to say that it can be reached again.


class Moved(msgspec.Struct, frozen=True):
    """Rebind, REGISTER with the new and the old contact, and update every session."""

    host: str
    before: str


class LinkLost(msgspec.Struct, frozen=True):
    """There is no way to the home server."""


class LinkBack(msgspec.Struct, frozen=True):
    """There is one again, and the address is the same: update every session."""

    host: str


Change: TypeAlias = Moved | LinkLost | LinkBack


class AddressMonitor:
    def __init__(self, bound: str) -> None:
        self.bound = bound
        self.up = True

    def observe(self, host: str | None) -> Change | None:
        """``host`` is the local address on the way to the home server, or None if there is no way."""
        was_up, self.up = self.up, host is not None
        if host is None:
            return LinkLost() if was_up else None
        if host != self.bound:
            before, self.bound = self.bound, host
            return Moved(host, before)
        return None if was_up else LinkBack(host)
