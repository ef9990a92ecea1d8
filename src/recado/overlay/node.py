"""A live node: a machine, its links, its state and the applications that use it.

    async with Node("ana", listen="127.0.0.1:0") as ana, Node("bruno", peers=[str(ana.address)]) as bruno:
        await bruno.become_publisher("Tick")
        stream = await ana.subscribe(Subscription("cheap", parse("Price < 25"), type="Tick"))
        await bruno.publish(Event("t-1", "Tick", attributes={"Price": 24.9}))

Everything runs in one event loop; ``stop`` (or leaving the block) sends what is queued, says good-bye to the peers and
ends every task.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.overlay.addresses import Address, Tls, check_name, read_address
from recado.overlay.connections import Identity
from recado.overlay.contacts import Contacts
from recado.overlay.driver import NodeDriver
from recado.overlay.hello import HEADER_BYTES
from recado.overlay.limits import OVERLAY_LIMITS, LinkError, OverlayError, OverlayLimits, reason_of
from recado.overlay.links import Links
from recado.overlay.state import FileState, NoState
from recado.overlay.streams import Stream, Streams, event_weight
from recado.protocols.machine import Asked, LinkDown, LinkUp
from recado.protocols.pubsub import (
    BecomeBroker,
    BecomeCandidate,
    BecomePublisher,
    Elected,
    Notified,
    OverlayProtocol,
    Publish,
    Subscribe,
    Unsubscribe,
)
from recado.protocols.registry import DEFAULT, find_protocol
from recado.protocols.wire import WireError

log = logging.getLogger("recado.overlay")


class Node:
    """A node that runs ``protocol``: a name of the registry, ``module:Class``, or a description; with its ``settings``.

    ``listen`` may have port 0: the system chooses one, and ``address`` tells it. ``advertise`` is where other nodes of
    a protocol that makes links by itself may dial this one; without it that is where it listens, unless that is every
    interface of the machine: then it is not introduced to others. ``subscriptions`` are made at the start and kept.
    ``seed`` is for repeatable runs.

    What ``peers`` are depends on the protocol: neighbours to have lasting links to, or, if its machines speak to anyone
    they have heard of, nodes that are asked to let this one in. There a node without peers is the first of its overlay.
    """

    def __init__(
        self,
        name: str,
        *,
        listen: str = "127.0.0.1:0",
        peers: Iterable[str] = (),
        overlay: str = "recado",
        protocol: str | OverlayProtocol = DEFAULT,
        settings: Mapping[str, Any] | None = None,
        key: bytes = b"",
        tls: Tls | None = None,
        state: Path | None = None,
        subscriptions: Iterable[Subscription] = (),
        limits: OverlayLimits = OVERLAY_LIMITS,
        seed: int | None = None,
        advertise: str = "",
    ) -> None:
        self.name, self.overlay = check_name(name), check_name(overlay)
        found = find_protocol(protocol) if isinstance(protocol, str) else protocol
        self.protocol = found.configure(settings or {})
        self.protocol.require_live()
        self.key, self.tls, self.limits = key, tls, limits
        self._listen, self._peers = read_address(listen), [read_address(peer) for peer in peers]
        self._advertise = str(read_address(advertise)) if advertise else ""
        self._opened: dict[str, Address] = {}
        self._folder, self._first = state, tuple(subscriptions)
        self._rng = Random(seed)  # noqa: S311  # for back-off and machines, not for secrets
        self.stopping, self.stopped, self._roles_changed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.failure = ""
        self.streams = Streams(limits)
        me = Identity(name, overlay, self.protocol.name, key, tls)
        self.links: Links | Contacts
        if found.contact == "anyone":
            self.links = Contacts(me, self, limits)
        else:
            self.links = Links(me, self, limits, self._rng)

    # -- begin and end

    async def start(self) -> Node:
        """Begin with what was saved, listen, and dial the peers."""
        self._state = FileState(self._folder, self.name) if self._folder is not None else NoState()
        try:
            self.address: Address = await self.links.bind(self._listen)
            if isinstance(self.links, Contacts):
                neighbours = [await _find_endpoint(peer) for peer in self._peers]
                self._begin(str(self.address), tuple(neighbours))
            else:
                self._begin(self.name, ())
            await self.links.serve()
        except BaseException:
            await self._give_up()
            raise
        log.info("%s: listens on %s", self.name, self.address)
        if isinstance(self.links, Links):
            for peer in self._peers:
                self.links.dial(peer)
        return self

    def _begin(self, me: str, neighbours: tuple[str, ...]) -> None:
        """Start the machine; it knows the node as ``me``."""
        machine = self.protocol.machines()(me)
        self.driver = NodeDriver(
            machine, self, state=self._state, limits=self.limits, rng=self._rng, stop=self.ask_to_stop
        )
        self.driver.start(neighbours, self._advertise or ("" if _is_wildcard(self._listen.host) else str(self.address)))
        self._resume()

    async def _give_up(self) -> None:
        """The node could not be started."""
        if hasattr(self, "driver"):
            self.driver.close()
        else:
            self._state.close(commit=False)
        if self.links.address is not None:
            await self.links.close()

    def _resume(self) -> None:
        """Subscriptions that were to be kept go on; the others ended with the process that made them.

        Then those that the node begins with are made, unless they were saved.
        """
        kept = self._state.kept_subscriptions()
        for subscription in self.driver.machine.inspect().get("subscriptions", ()):
            if subscription in kept:
                self.streams.open(subscription)
            else:
                self.driver.tell(Asked(Unsubscribe(subscription)))
        for first in self._first:
            if first.id not in self.streams:
                self.streams.open(first.id)
                self._state.keep(first.id, True)
                self.driver.tell(Asked(Subscribe(first)))

    async def stop(self) -> None:
        """Send what is queued, say good-bye, end all tasks; a second call does nothing."""
        if self.links.address is not None and not self.stopped.is_set():
            self.stopped.set()
            await self.links.close()
            self.driver.close()
            self.streams.close_all()
            log.info("%s: stopped", self.name)

    async def __aenter__(self) -> Node:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def ask_to_stop(self, failure: str = "") -> None:
        """Whoever runs the node and waits for ``stopping`` should stop it now."""
        if failure:
            log.critical("%s: %s", self.name, failure)
            self.failure = failure
        self.stopping.set()

    # -- what applications ask

    async def subscribe(self, subscription: Subscription, *, keep: bool = False) -> Stream:
        """A stream of what the subscription brings, from now on.

        With ``keep`` the subscription outlives this process if the node has a state folder: see ``follow``.
        """
        if subscription.id in self.streams:
            raise OverlayError(f"there is a subscription {subscription.id!r} at this node already")
        stream = self.streams.open(subscription.id)
        self._state.keep(subscription.id, keep)
        try:
            await self.driver.ask(Subscribe(subscription))
        except BaseException:
            self._state.keep(subscription.id, False)
            self.streams.close(subscription.id)
            raise
        return stream

    def follow(self, subscription: str) -> Stream:
        """The stream of a subscription that exists, with what came while nobody followed it."""
        return self.streams.get(subscription)

    async def unsubscribe(self, subscription: str) -> None:
        """End a subscription and its stream; what the machine raises if there is none."""
        self._state.keep(subscription, False)
        await self.driver.ask(Unsubscribe(subscription))
        self.streams.close(subscription)

    async def publish(self, event: Event) -> None:
        """Waits a moment if a link is crowded, so that a fast publisher does not overrun its own node."""
        await self._room()
        await self.driver.ask(Publish(event), event_weight(event))

    async def become_publisher(self, event_type: str) -> None:
        """Publish events of a type from now on; a ProtocolError if the protocol has no such role."""
        self.protocol.protocol.require("become_publisher")
        await self.driver.ask(BecomePublisher(event_type))

    async def become_candidate(self, event_type: str) -> None:
        """Stand by for a type: see ``wait_until_publisher``. A ProtocolError if the protocol has no such role."""
        self.protocol.protocol.require("become_candidate")
        await self.driver.ask(BecomeCandidate(event_type))

    async def become_broker(self, event_type: str) -> None:
        """Stop publishing a type; a ProtocolError if the protocol has no such role."""
        self.protocol.protocol.require("become_broker")
        await self.driver.ask(BecomeBroker(event_type))

    async def wait_until_publisher(self, event_type: str) -> None:
        """Wait until this node publishes the type: at once if it does, else until it is elected."""
        while event_type not in self.driver.machine.inspect().get("publishes", ()):
            self._roles_changed.clear()
            await self._roles_changed.wait()

    def connect(self, address: str) -> None:
        """Have a link to the node that listens there; or know of it, where links are made when they are needed."""
        found = read_address(address)
        if isinstance(self.links, Links):
            self.links.dial(found)
        else:
            self.driver.tell(LinkUp(str(found)))

    async def wait_for_links(self, *peers: str) -> None:
        """Wait until there are links to these peers."""
        while not all(peer in self.links.links for peer in peers):
            await asyncio.sleep(0.005)

    async def _room(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.limits.publish_wait_seconds
        while any(link.crowded for link in self.links.links.values()) and loop.time() < end:
            await asyncio.sleep(0.005)

    # -- what the links tell

    def link_up(self, peer: str) -> None:
        self.driver.tell(LinkUp(peer))

    def link_down(self, peer: str) -> None:
        self.driver.tell(LinkDown(peer))

    def receive(self, peer: str, payload: bytes) -> None:
        try:
            message = self.protocol.decode(payload)
        except WireError as error:
            raise LinkError(str(error)) from None
        self.driver.received(peer, message, len(payload) + HEADER_BYTES)

    def send_failed(self, peer: str, message: Any) -> None:
        self.driver.send_failed(peer, message)

    # -- what the driver does

    def send(self, receiver: Any, message: Any) -> int:
        links = self.links
        if isinstance(links, Links) and receiver not in links.links:
            return -1
        payload = self.protocol.encode(message)
        if len(payload) > self.limits.frame_bytes:
            log.error("%s: a %s of %d bytes is too large to send", self.name, type(message).__name__, len(payload))
            return -1
        if isinstance(links, Links):
            links.links[receiver].send(payload)
        elif not links.send(receiver, message, payload):
            return -1
        return len(payload) + HEADER_BYTES

    def open_link(self, peer: Any, address: str) -> None:
        """The machine wants a link; what cannot be an address was made up by another node."""
        if not isinstance(self.links, Links):
            return  # it may speak to anyone as it is
        try:
            place = read_address(address)
        except OverlayError as error:
            log.warning("%s: no link to %s: %s", self.name, peer, error)
            return
        self._opened[str(peer)] = place
        self.links.dial(place)

    def close_link(self, peer: Any) -> None:
        place = self._opened.pop(str(peer), None)
        if place is not None and place not in self._peers and isinstance(self.links, Links):
            self.links.hang_up(place)
            self.links.end(str(peer))

    def deliver(self, notification: Notified) -> None:
        self.streams.deliver(notification, self.driver.now)

    def report(self, fact: Any) -> None:
        log.info("%s: %s", self.name, fact)
        if isinstance(fact, Elected):
            self._roles_changed.set()
        self.streams.report(fact)

    # -- what a person sees

    def show(self) -> dict[str, Any]:
        """The node's state as plain data."""
        now = asyncio.get_running_loop().time()
        machine = self.driver.machine.inspect()
        return {
            "node": self.name,
            "overlay": self.overlay,
            "protocol": self.protocol.name,
            "address": str(self.address),
            "process": os.getpid(),
            "links": {peer: _link(link, now) for peer, link in sorted(self.links.links.items())},
            "dials": [str(address) for address in self.links.dialled] if isinstance(self.links, Links) else [],
            "refused": self.links.refused,
            "counters": self.driver.counters.plain(),
            "roles": self.protocol.protocol.roles(machine),
            "sections": self.protocol.protocol.sections(machine),
            "machine": machine,
        }

    def count(self) -> dict[str, Any]:
        """What tells whether anything is on its way: steps taken, messages of each link, and timers that are set."""
        return {
            "node": self.name,
            "steps": self.driver.counters.steps,
            "sent": dict(self.driver.counters.sent),
            "links": {peer: (link.sent, link.received) for peer, link in self.links.links.items()},
            "timers": self.driver.timers,
            "joined": self.joined,
        }

    @property
    def joined(self) -> bool:
        """Is the node a part of the overlay?"""
        return self.protocol.protocol.joined(self.driver.machine.inspect())


async def _find_endpoint(peer: Address) -> str:
    """The endpoint of a peer that may be given by the name of its host."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(peer.host, peer.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OverlayError(f"{peer.host} has no address: {reason_of(error)}") from None
    return str(Address(str(found[0][4][0]), peer.port))


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:  # a name
        return False


def _link(link: Any, now: float) -> dict[str, Any]:
    return {
        "dialled": link.dialled,
        "seconds": round(now - link.since, 3),
        "sent": link.sent,
        "received": link.received,
        "queued_bytes": link.queued_bytes,
    }
