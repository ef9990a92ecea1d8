"""The links of a node that speaks to anybody it has heard of, as protocols with ``contact = "anyone"`` want.

Nodes are known by their **endpoint**, the text ``HOST:PORT`` (an IP address) at which they listen; the hello says it,
and it must be where the connection comes from. A link is opened when there is something to send, and kept while it is
used. It carries messages one way only, from the one who dialled; so nobody gets messages for an endpoint but who
listens there, and two nodes that dial each other have two links. When too many are open, the one that was used longest
ago is closed; messages to still others wait for a place.

Every message is acknowledged by the node that gets it (``Ack``). A message has failed if the connection is refused, or
if within ``ack_seconds`` nothing is acknowledged, and again on a second connection. Numbers go on over connections, so
that what was sent twice is taken once.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
from collections import deque
from typing import Any, NamedTuple, Protocol

from recado.net.driver import Timers
from recado.overlay.addresses import Address, read_address
from recado.overlay.connections import Connections, Identity, Stream
from recado.overlay.hello import Ack, Begin, Control, Hello, Refuse, endpoint_capability, endpoint_of
from recado.overlay.limits import LinkError, OverlayError, OverlayLimits, reason_of
from recado.overlay.link import Link

log = logging.getLogger("recado.overlay")

_SESSIONS = 4
"""Numbers are remembered for so many times as many peers as may be linked."""

_CROWDED = 8
"""All messages that are not acknowledged yet may take so many times as much as those to one peer."""


class ContactOwner(Protocol):
    """The node that the links belong to."""

    def receive(self, peer: str, payload: bytes) -> None: ...
    def send_failed(self, peer: str, message: Any) -> None: ...


class Pending(NamedTuple):
    """A message that is not acknowledged yet."""

    number: int
    message: Any
    payload: bytes


class Contact:
    """Somebody that this node sends to."""

    __slots__ = (
        "address",
        "dialling",
        "endpoint",
        "link",
        "number",
        "pending",
        "pending_bytes",
        "session",
        "tries",
        "used",
    )

    def __init__(self, endpoint: str, address: Address) -> None:
        self.endpoint, self.address = endpoint, address
        self.session = secrets.randbits(62)
        self.number = 0
        self.pending: deque[Pending] = deque()
        self.pending_bytes = 0
        self.link: Link | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.tries = 0
        """Connections on which nothing was acknowledged."""
        self.used = 0.0


class Incoming:
    """A link on which somebody sends to this node."""

    __slots__ = ("ack_waits", "endpoint", "link", "number", "session")

    link: Link

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.session = -1
        self.number = 0
        self.ack_waits = False


class Contacts:
    """The links of the node ``me``: those that it dialled by endpoint, and those on which others send."""

    def __init__(self, me: Identity, owner: ContactOwner, limits: OverlayLimits) -> None:
        self._me, self._owner, self._limits = me, owner, limits
        self._connections = Connections(me, self, limits)
        self._contacts: dict[str, Contact] = {}
        """In the order in which they were used, the latest last."""
        self._waiting: dict[str, Contact] = {}
        """Of these, those that wait for a place."""
        self._incoming: dict[str, Incoming] = {}
        self._sessions: dict[str, tuple[int, int]] = {}
        """The session of a sender, and the number of the last message that was taken."""
        self._most_incoming = limits.connections // 2
        self._most_dialled = min(limits.contacts, limits.connections // 4)
        self.pending_bytes = 0
        self.failures = 0

    @property
    def address(self) -> Address | None:
        return self._connections.address

    @property
    def endpoint(self) -> str:
        return str(self._connections.address)

    @property
    def refused(self) -> int:
        """Connections of others that came to nothing."""
        return self._connections.refused

    @property
    def open(self) -> int:
        return self._connections.open

    @property
    def links(self) -> dict[str, Link]:
        """Those that are up, for people."""
        dialled = {one.endpoint: one.link for one in self._contacts.values() if one.link is not None}
        heard = {f"from {endpoint}": one.link for endpoint, one in self._incoming.items()}
        return dialled | heard

    # -- begin and end

    async def bind(self, address: Address) -> Address:
        """Take the address, and let nobody in before ``serve``; with the port that the system chose, if it was 0."""
        self._loop, self._timers = asyncio.get_running_loop(), Timers()
        found = await self._connections.bind(address)
        if ipaddress.ip_address(found.host).is_unspecified:
            raise OverlayError(f"others have to be told where this node is: listen on one address, not on {found.host}")
        self._set_sweep()
        return found

    async def serve(self) -> None:
        """Let others in."""
        await self._connections.serve()

    async def close(self) -> None:
        """Send what is queued, say good-bye, and end every task."""
        await self._connections.stop_listening()
        self._timers.close()
        self._waiting.clear()
        for contact in self._contacts.values():
            if contact.dialling is not None:
                contact.dialling.cancel()
        await self._connections.close(list(self.links.values()))

    # -- sending

    def send(self, endpoint: str, message: Any, payload: bytes) -> bool:
        """Send a message, sooner or later; False if that is impossible. What fails later is told to the owner."""
        if endpoint == self.endpoint:
            self._loop.call_soon(self._owner.receive, endpoint, payload)
            return True
        if self.pending_bytes + len(payload) > _CROWDED * self._limits.queue_bytes:
            return False
        contact = self._contacts.get(endpoint)
        if contact is None:
            address = self._read(endpoint)
            if address is None:
                return False
            contact = Contact(endpoint, address)
        elif contact.pending_bytes + len(payload) > self._limits.queue_bytes:
            return False
        else:
            del self._contacts[endpoint]
        self._contacts[endpoint] = contact
        contact.used = self._loop.time()
        contact.number += 1
        contact.pending.append(Pending(contact.number, message, payload))
        contact.pending_bytes += len(payload)
        self.pending_bytes += len(payload)
        if contact.link is not None:
            contact.link.send(payload)
            if len(contact.pending) == 1:
                self._set_timer(contact)
        elif contact.dialling is None and endpoint not in self._waiting:
            self._waiting[endpoint] = contact
            self._dial_waiting()
        return True

    def _read(self, endpoint: str) -> Address | None:
        """Where to dial; None for what is no endpoint, or cannot be one of this overlay.

        A node on loopback dials nobody elsewhere, whatever it is told: nobody there could know it.
        """
        assert self.address is not None
        try:
            address = read_address(endpoint)
            ipaddress.ip_address(address.host)
        except (OverlayError, ValueError):
            return None
        if not address.port or (self.address.loopback and not address.loopback):
            return None
        return address

    def _dial_waiting(self) -> None:
        """Dial those that wait, as far as there is room."""
        while self._waiting and not self._connections.ending and self._make_room():
            contact = self._waiting.pop(next(iter(self._waiting)))
            self._dial(contact)

    def _make_room(self) -> bool:
        """Is there a place for one connection more? A link that nothing is under way on may be closed for it."""
        if len(self._contacts) - len(self._waiting) < self._most_dialled:
            return True
        for contact in self._contacts.values():
            if contact.link is not None and not contact.pending:
                self._drop(contact)
                return True
        return False

    def _dial(self, contact: Contact) -> None:
        self._set_timer(contact)
        contact.dialling = self._connections.start(self._call(contact))

    async def _call(self, contact: Contact) -> None:
        assert self.address is not None
        me = asyncio.current_task()
        try:
            await self._connections.call(contact.address, self.address.host)
        except (OverlayError, OSError) as error:
            if contact.dialling is me:
                log.debug("%s: no link to %s: %s", self._me.name, contact.endpoint, reason_of(error))
                self._fail(contact)
        finally:
            if contact.dialling is me:
                contact.dialling = None

    def _drop(self, contact: Contact) -> None:
        """Close a link that is not needed now."""
        self._forget(contact)
        if contact.link is not None:
            contact.link.finish()

    def _forget(self, contact: Contact) -> None:
        if self._contacts.get(contact.endpoint) is contact:
            del self._contacts[contact.endpoint]
        self._waiting.pop(contact.endpoint, None)
        self._timers.cancel(contact.endpoint)

    def _set_timer(self, contact: Contact) -> None:
        self._timers.set(contact.endpoint, self._limits.ack_seconds, lambda: self._no_ack(contact))

    def _no_ack(self, contact: Contact) -> None:
        if contact.pending:
            log.debug("%s: %s does not acknowledge", self._me.name, contact.endpoint)
            self._try_again(contact)

    def _try_again(self, contact: Contact) -> None:
        """Nothing was acknowledged on this connection: use another one, or give up."""
        contact.tries += 1
        link, contact.link = contact.link, None
        if link is not None:
            link.cut("nothing was acknowledged")
        if contact.dialling is not None:
            contact.dialling.cancel()
            contact.dialling = None
        if contact.tries < self._limits.ack_tries and not self._connections.ending:
            self._dial(contact)
        else:
            self._fail(contact)

    def _fail(self, contact: Contact) -> None:
        """Nothing reaches this endpoint: the owner is told of every message."""
        self._forget(contact)
        lost = list(contact.pending)
        contact.pending.clear()
        self.pending_bytes -= contact.pending_bytes
        contact.pending_bytes = 0
        self.failures += len(lost)
        if not self._connections.ending:
            for one in lost:
                self._owner.send_failed(contact.endpoint, one.message)
            self._dial_waiting()

    def _on_ack(self, contact: Contact, message: Control) -> None:
        if not isinstance(message, Ack):
            raise LinkError(f"{type(message).__name__.lower()} where only acknowledgements are expected")
        if message.number > contact.number:
            raise LinkError(f"message {message.number} was acknowledged and never sent")
        pending = contact.pending
        while pending and pending[0].number <= message.number:
            size = len(pending.popleft().payload)
            contact.pending_bytes -= size
            self.pending_bytes -= size
            contact.tries = 0
        if pending:
            self._set_timer(contact)
        else:
            self._timers.cancel(contact.endpoint)
            if self._waiting:
                self._dial_waiting()

    # -- what connections ask

    def capabilities(self) -> tuple[str, ...]:
        return (endpoint_capability(self.endpoint),)

    def refusal(self, hello: Hello) -> Refuse | None:
        return None

    async def keep(self, hello: Hello, remote: Address, stream: Stream, *, dialled: bool) -> None:
        endpoint = endpoint_of(hello)
        if dialled:
            if endpoint != str(remote):
                raise stream.refuse(f"the node at {remote} says that it is at {endpoint[:80]!r}")
            await self._keep_contact(endpoint, stream)
        else:
            claimed = self._read(endpoint)
            if claimed is None or str(claimed) != endpoint or claimed.host != remote.host:
                raise stream.refuse(f"a node that says it is at {endpoint[:80]!r} speaks from {remote.host}")
            await self._keep_incoming(endpoint, stream)

    async def _keep_contact(self, endpoint: str, stream: Stream) -> None:
        contact = self._contacts.get(endpoint)
        if contact is None or contact.link is not None:
            raise stream.refuse("this connection is not needed any more")

        def refuse(peer: str, payload: bytes) -> None:
            raise LinkError("a message where only acknowledgements are expected")

        link = contact.link = Link(
            endpoint,
            stream.reader,
            stream.writer,
            stream.decoder,
            limits=self._limits,
            receive=refuse,
            dialled=True,
            control=lambda message: self._on_ack(contact, message),
            pings=False,
        )
        link.say(Begin(contact.session, contact.pending[0].number if contact.pending else contact.number + 1))
        for one in contact.pending:
            link.send(one.payload)
        try:
            await link.run()
        finally:
            if contact.link is link:
                contact.link = None
                if contact.pending and not self._connections.ending:
                    self._try_again(contact)
                else:
                    self._forget(contact)
                    self._dial_waiting()

    async def _keep_incoming(self, endpoint: str, stream: Stream) -> None:
        """One link a sender: a second one means that the first is of no use any more."""
        incoming = Incoming(endpoint)
        link = incoming.link = Link(
            endpoint,
            stream.reader,
            stream.writer,
            stream.decoder,
            limits=self._limits,
            receive=lambda _, payload: self._on_message(incoming, payload),
            dialled=False,
            control=lambda message: self._on_begin(incoming, message),
            pings=False,
            messages_a_second=self._limits.messages_a_second,
        )
        older = self._incoming.pop(endpoint, None)
        if older is not None:
            older.link.cut("another connection takes its place")
        self._incoming[endpoint] = incoming
        if len(self._incoming) > self._most_incoming:
            self._incoming.pop(next(iter(self._incoming))).link.finish()
        try:
            reason = await link.run()
        finally:
            if self._incoming.get(endpoint) is incoming:
                del self._incoming[endpoint]
        if link.broken:
            raise LinkError(reason)

    # -- receiving

    def _on_begin(self, incoming: Incoming, message: Control) -> None:
        if not isinstance(message, Begin) or incoming.session >= 0:
            raise LinkError(f"{type(message).__name__.lower()} out of turn")
        if not (0 <= message.session < 1 << 62 and 1 <= message.first < 1 << 62):
            raise LinkError("messages are numbered from 1 on")
        incoming.session, incoming.number = message.session, message.first - 1

    def _on_message(self, incoming: Incoming, payload: bytes) -> None:
        if incoming.session < 0:
            raise LinkError("a message before it was said how messages are numbered")
        endpoint = incoming.endpoint
        incoming.number += 1
        session, number = self._sessions.get(endpoint, (-1, 0))
        if session != incoming.session or number < incoming.number:
            self._owner.receive(endpoint, payload)
            self._remember(endpoint, incoming)
        if not incoming.ack_waits:
            incoming.ack_waits = True
            self._loop.call_soon(self._acknowledge, incoming)

    def _remember(self, endpoint: str, incoming: Incoming) -> None:
        self._sessions.pop(endpoint, None)
        self._sessions[endpoint] = (incoming.session, incoming.number)
        if len(self._sessions) > _SESSIONS * self._most_incoming:
            del self._sessions[next(iter(self._sessions))]
        if self._incoming.get(endpoint) is incoming:  # the latest last
            del self._incoming[endpoint]
            self._incoming[endpoint] = incoming

    def _acknowledge(self, incoming: Incoming) -> None:
        incoming.ack_waits = False
        incoming.link.say(Ack(incoming.number))

    # -- links that nobody uses

    def _set_sweep(self) -> None:
        self._timers.set(0, self._limits.contact_idle_seconds / 2, self._sweep)

    def _sweep(self) -> None:
        idle, now = self._limits.contact_idle_seconds, self._loop.time()
        for contact in list(self._contacts.values()):
            if contact.link is not None and not contact.pending and now - contact.used > idle:
                self._drop(contact)
        for incoming in list(self._incoming.values()):
            if incoming.link.quiet_seconds > 2 * idle:
                incoming.link.cut("not used any more")  # its sender would have closed it before
        self._set_sweep()
