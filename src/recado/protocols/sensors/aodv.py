"""AODV: routes on demand (section 6), in the way of ns-2 or of RFC 3561.

A node that wants to send to another floods a ``RouteRequest``; on its way it leaves routes back to its source. The
destination, or a node that knows a route that is new enough, answers with a ``RouteReply`` along them, which leaves the
route there. A hop that is not acknowledged takes the routes over it down, and ``RouteError`` tells those who use them.

In the paper no route is ever too old, so neither are they here unless ``route_expiry`` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from recado.protocols.sensors.context import BOOT, Context, trim
from recado.protocols.sensors.messages import (
    MOST_HOPS,
    MOST_NAMES,
    Data,
    Hello,
    Id,
    Name,
    RouteError,
    RouteReply,
    RouteRequest,
)

FAR = 255
"""The hops of a route that is down."""
MOST_PRECURSORS = 256
UNKNOWN = -1
"""The sequence number of a destination of which nothing is known, with RFC 3561; ns-2 takes 0."""


class Route:
    __slots__ = (
        "down_at", "expires", "hops", "last_hops", "last_ttl", "next_hop", "precursors", "requests", "seq", "state",
        "wait_until",
    )  # fmt: skip

    def __init__(self, seq: int, last_hops: int) -> None:
        self.next_hop: Name = -1
        self.hops = FAR
        self.seq = seq
        self.state: Literal["up", "down", "repair"] = "down"
        self.expires = math.inf
        self.down_at = math.inf
        self.precursors: dict[Name, None] = {}
        self.requests = 0
        """Network-wide requests without an answer: req_cnt."""
        self.wait_until = 0.0
        """req_timeout."""
        self.last_ttl = 0
        self.last_hops = last_hops


class Buffered:
    __slots__ = ("expires", "packet")

    def __init__(self, packet: Data, expires: float) -> None:
        self.packet, self.expires = packet, expires


class Aodv:
    """Routing of one node. ``arrived`` is called with packets for it, ``found`` with a destination that has a route."""

    __slots__ = (
        "_bid", "_context", "_errors", "_heard", "_hello", "_relays", "_requests", "arrived", "buffer", "found",
        "parameters", "routes", "seen", "seq",
    )  # fmt: skip

    def __init__(self, context: Context) -> None:
        self._context = context
        self.arrived: Callable[[Data], None]
        self.found: Callable[[Name], None]
        self.parameters = context.settings.aodv_parameters()
        self.routes: dict[Name, Route] = {}
        self.seen: dict[Id, float] = {}
        """Route requests that were seen, and until when they are remembered."""
        self.buffer: list[Buffered] = []
        self.seq = 2
        self._bid = 0
        self._relays: dict[Id, RouteRequest] = {}
        self._requests: list[float] = []
        self._errors: list[float] = []
        self._hello = False
        self._heard: dict[Name, float] = {}

    def start(self) -> None:
        """After a restart with higher numbers, so that what others know of this node is older."""
        self.seq += self._context.boots * BOOT
        self._bid = self._context.boots * BOOT

    # -- what the layer above reads and asks

    def next_hop(self, dst: Name) -> Name | None:
        """The neighbour on the way to a node; None without a route."""
        route = self.routes.get(dst)
        return route.next_hop if route is not None and self._is_up(route) else None

    def send(self, packet: Data) -> None:
        """SEND: the packet leaves now, or when there is a route."""
        route = self._route(packet.dst)
        if self._is_up(route):
            self._forward(packet, route, "there is a route")
            return
        self._keep(packet)
        if self._context.now >= route.wait_until and route.state != "repair":
            self._discover(packet.dst, route)

    # -- data

    def on_data(self, sender: Name, packet: Data) -> None:
        context = self._context
        if packet.dst == context.me:
            self.arrived(packet)
            return
        if packet.ttl <= 1:
            context.count("dropped.ttl")
            return
        packet = Data(packet.pid, packet.event, packet.src, packet.dst, packet.ttl - 1)
        route = self.routes.get(packet.dst)
        if route is not None and self._is_up(route):
            self._touch(self.routes.get(packet.src))
            self._forward(packet, route, "on its way")
        elif route is not None and route.state == "repair":
            self._keep(packet)
        else:
            context.count("dropped.no_route")
            seq = 0
            if route is not None:
                route.seq = max(route.seq, 0) + 1
                seq = route.seq
            self._tell_lost([(packet.dst, seq)], "no route for a packet")

    def _forward(self, packet: Data, route: Route, why: str) -> None:
        self._touch(route)
        self._context.send(route.next_hop, packet, why)

    def _keep(self, packet: Data) -> None:
        settings, now = self._context.settings, self._context.now
        alive = [one for one in self.buffer if one.expires > now]
        self._context.count("dropped.old", len(self.buffer) - len(alive))
        self.buffer = alive
        while len(alive) >= settings.buffer_packets:
            del alive[0]
            self._context.count("dropped.buffer")
        alive.append(Buffered(packet, now + settings.buffer_seconds))

    def _take(self, dst: Name) -> list[Data]:
        """The packets that wait for a route to a node, and wait no more."""
        now = self._context.now
        if not self.buffer:
            return []
        taken = [one for one in self.buffer if one.packet.dst == dst]
        if taken:
            self.buffer = [one for one in self.buffer if one.packet.dst != dst]
        alive = [one.packet for one in taken if one.expires > now]
        self._context.count("dropped.old", len(taken) - len(alive))
        return alive

    def _waits(self, dst: Name) -> bool:
        now = self._context.now
        return any(one.packet.dst == dst and one.expires > now for one in self.buffer)

    def _flush(self, dst: Name, route: Route) -> None:
        for packet in self._take(dst):
            self._forward(packet, route, "a route was found")
        self.found(dst)

    # -- the table

    def _route(self, dst: Name) -> Route:
        """The entry of a node, made if there is none."""
        route = self.routes.get(dst)
        parameters, settings = self.parameters, self._context.settings
        if route is not None and route.down_at + parameters.delete_seconds < self._context.now:
            del self.routes[dst]
            route = None
        if route is None:
            route = self.routes[dst] = Route(UNKNOWN if parameters.rfc else 0, parameters.first_last_hops)
            trim(self.routes, settings.max_routes)
        return route

    def _is_up(self, route: Route) -> bool:
        if route.state != "up":
            return False
        if route.expires <= self._context.now:
            self._take_down(route)
            return False
        return True

    def _take_down(self, route: Route) -> None:
        if route.state != "down":
            route.last_hops = route.hops if route.hops < FAR else route.last_hops
            route.hops, route.state, route.down_at = FAR, "down", self._context.now

    def _update(self, route: Route, next_hop: Name, hops: int, seq: int, lifetime: float) -> None:
        route.next_hop, route.hops, route.seq, route.state = next_hop, hops, seq, "up"
        route.down_at = math.inf
        expires = self._context.now + lifetime if self._context.settings.route_expiry else math.inf
        route.expires = expires if route.expires == math.inf else max(route.expires, expires)
        route.requests, route.wait_until, route.last_ttl = 0, 0.0, hops
        self._start_hello()

    def _touch(self, route: Route | None) -> None:
        """A route that is used lasts longer."""
        if route is not None and self._context.settings.route_expiry:
            route.expires = max(route.expires, self._context.now + self.parameters.active_route_seconds)

    @staticmethod
    def _is_better(route: Route, seq: int, hops: int) -> bool:
        return seq > route.seq or (seq == route.seq and hops < route.hops)

    def _learn_neighbour(self, sender: Name) -> None:
        """RFC 3561: whoever was heard is a neighbour, with an unknown sequence number."""
        if self.parameters.rfc:
            route = self._route(sender)
            if not self._is_up(route):
                self._update(route, sender, 1, route.seq, self.parameters.active_route_seconds)
                self._flush(sender, route)

    # -- discovery

    def _discover(self, dst: Name, route: Route) -> None:
        context, parameters = self._context, self.parameters
        if route.requests > parameters.rreq_retries:
            context.count("dropped.unreachable", len(self._take(dst)))
            route.requests = 0
            wait = parameters.rreq_wait_most_seconds
            route.wait_until = context.now + (wait if wait < math.inf else 0.0)
            self._take_down(route)
            return
        if not _allow(self._requests, parameters.rreq_per_second, context.now):
            route.wait_until = context.now + 1.0
            context.set_timer(("rreq", dst), 1.0)
            return
        ttl = self._choose_ttl(route)
        self.seq += parameters.seq_step
        self._bid += 1
        id = (context.me, self._bid)
        self._see(id)
        unknown = route.seq == UNKNOWN
        request = RouteRequest(
            id, self.seq, dst, max(route.seq, 0), parameters.first_hop_count, ttl, unknown,
            context.settings.destination_only and parameters.rfc,
        )  # fmt: skip
        context.broadcast(request, "a route is needed")
        wait = self._request_wait(route, ttl)
        route.wait_until = context.now + wait
        if context.settings.repeats_requests:
            slack = parameters.retry_slack_seconds
            context.set_timer(("rreq", dst), wait + (context.rng.uniform(0.0, slack) if slack else 0.0))

    def _choose_ttl(self, route: Route) -> int:
        """An expanding ring around where the node was last; for ns-2, one that was never known was far away."""
        parameters = self.parameters
        last = max(route.last_ttl, route.last_hops)
        if last == 0:
            ttl = parameters.ttl_start
        elif last < parameters.ttl_threshold:
            ttl = last + parameters.ttl_increment
        else:
            ttl = parameters.diameter
            route.requests += 1
        route.last_ttl = ttl
        return ttl

    def _request_wait(self, route: Route, ttl: int) -> float:
        parameters = self.parameters
        if not parameters.rfc:
            seconds = 2 * ttl * parameters.traversal_seconds * max(route.requests, 1)
        elif route.requests:
            seconds = 2 * parameters.traversal_seconds * parameters.diameter * 2 ** (route.requests - 1)
        else:
            seconds = 2 * parameters.traversal_seconds * (ttl + 2)
        return min(seconds, parameters.rreq_wait_most_seconds)

    def request_is_due(self, dst: Name) -> None:
        """``rreq_retry``: no answer has come."""
        route = self._route(dst)
        if not self._is_up(route) and route.state != "repair" and self._waits(dst):
            self._discover(dst, route)

    def _see(self, message_id: Id) -> None:
        seen, now = self.seen, self._context.now
        while seen and next(iter(seen.values())) <= now:
            del seen[next(iter(seen))]
        seen[message_id] = now + self.parameters.seen_seconds
        trim(seen, self._context.settings.max_seen)

    def on_request(self, sender: Name, message: RouteRequest) -> None:
        """A request that was not seen before."""
        context, parameters = self._context, self.parameters
        src = message.id[0]
        self._see(message.id)
        if src == context.me:
            return
        self._learn_neighbour(sender)
        back = self._route(src)
        hops = message.hop_count + 1 - parameters.first_hop_count
        if self._is_better(back, message.src_seq, hops) or not self._is_up(back):
            self._update(back, sender, hops, max(message.src_seq, back.seq), self._reverse_life(hops))
            self._flush(src, back)
        elif context.settings.route_expiry:
            back.expires = max(back.expires, context.now + self._reverse_life(hops))
        if message.dst == context.me:
            self._answer(message, back)
            return
        there = self.routes.get(message.dst)
        known = UNKNOWN if there is None else there.seq
        if there is not None and known >= message.dst_seq and not message.destination_only and self._is_up(there):
            self._answer_for(message, there, back)
        elif message.ttl > 1:
            self._relay(message, known)

    def _reverse_life(self, hops: int) -> float:
        parameters = self.parameters
        if not parameters.rfc:
            return parameters.reverse_route_seconds
        return max(parameters.reverse_route_seconds - 2 * hops * parameters.traversal_seconds, 0.0)

    def _answer(self, message: RouteRequest, back: Route) -> None:
        parameters = self.parameters
        if parameters.rfc:
            self.seq = max(self.seq, message.dst_seq)
        else:
            self.seq = max(self.seq, message.dst_seq) + 1
            self.seq += self.seq % 2
        lifetime = parameters.my_route_seconds if self._context.settings.route_expiry else math.inf
        reply = RouteReply(self._context.me, self.seq, message.id[0], parameters.first_hop_count, lifetime)
        self._context.send(back.next_hop, reply, "it is me who is looked for")

    def _answer_for(self, message: RouteRequest, there: Route, back: Route) -> None:
        _link(there, back.next_hop)
        _link(back, there.next_hop)
        hop_count = min(there.hops + self.parameters.first_hop_count, MOST_HOPS)
        lifetime = there.expires - self._context.now
        reply = RouteReply(message.dst, there.seq, message.id[0], hop_count, lifetime)
        self._context.send(back.next_hop, reply, "a route to it is known here")

    def _relay(self, message: RouteRequest, known: int) -> None:
        """``known`` is the last sequence number of the destination that this node has heard of."""
        context = self._context
        self._relays[message.id] = msgspec.structs.replace(
            message,
            dst_seq=max(message.dst_seq, known),
            hop_count=min(message.hop_count + 1, MOST_HOPS),
            ttl=message.ttl - 1,
            unknown=message.unknown and known == UNKNOWN,
        )
        trim(self._relays, context.settings.max_seen)
        context.set_timer(("relay", message.id), context.rng.uniform(0.0, self.parameters.relay_jitter_seconds))

    def relay_is_due(self, message_id: Id) -> None:
        request = self._relays.pop(message_id, None)
        if request is not None:
            self._context.broadcast(request, "no route to it is known here")

    def on_reply(self, sender: Name, message: RouteReply) -> None:
        context, parameters = self._context, self.parameters
        if message.dst == context.me:
            return
        self._learn_neighbour(sender)
        route = self._route(message.dst)
        hops = message.hop_count + 1 - parameters.first_hop_count
        if not (self._is_better(route, message.dst_seq, hops) or (parameters.rfc and not self._is_up(route))):
            context.count("aodv.suppressed")
            return
        self._update(route, sender, hops, message.dst_seq, message.lifetime)
        self._flush(message.dst, route)
        if message.orig == context.me:
            return
        back = self.routes.get(message.orig)
        if back is None or not self._is_up(back):
            context.count("dropped.reply")
            return
        _link(route, back.next_hop)
        _link(back, sender)
        self._touch(back)
        hop_count = min(message.hop_count + 1, MOST_HOPS)
        reply = RouteReply(message.dst, message.dst_seq, message.orig, hop_count, message.lifetime)
        context.send(back.next_hop, reply, "on its way to who asked")

    # -- links that fail

    def link_failed(self, neighbour: Name) -> None:
        """A hop was not acknowledged."""
        lost = []
        for dst, route in self.routes.items():
            if route.state == "up" and route.next_hop == neighbour:
                route.seq = max(route.seq, 0) + 1
                self._take_down(route)
                if route.precursors:
                    lost.append((dst, route.seq))
                    route.precursors.clear()
        self._context.count("aodv.link_failed")
        self._tell_lost(lost, "a link has failed")

    def data_failed(self, neighbour: Name, packet: Data) -> None:
        """A packet was not acknowledged: it may be kept for another route (``repair``)."""
        context, settings = self._context, self._context.settings
        route = self.routes.get(packet.dst)
        hops = route.hops if route is not None and route.next_hop == neighbour else FAR
        behind = self.routes.get(packet.src)
        if settings.repair != "none" and packet.src == context.me:
            self.link_failed(neighbour)
            self.send(packet)
        elif settings.repair == "local" and route is not None and hops < (behind.hops if behind else FAR):
            precursors = dict(route.precursors)
            route.precursors.clear()
            self.link_failed(neighbour)
            route.precursors = precursors
            route.state = "repair"
            self._keep(packet)
            self._discover(packet.dst, route)
            context.set_timer(("repair", packet.dst), self.parameters.repair_wait_seconds)
        else:
            context.count("dropped.link")
            self.link_failed(neighbour)

    def reply_failed(self, neighbour: Name, message: RouteReply) -> None:
        """ns-2 only drops what is no data; the RFC takes any hop that fails as a broken link."""
        self._context.count("dropped.reply")
        if self.parameters.rfc:
            self.link_failed(neighbour)

    def repair_is_over(self, dst: Name) -> None:
        route = self.routes.get(dst)
        if route is None or route.state != "repair":
            return
        self._take_down(route)
        self._context.count("dropped.repair", len(self._take(dst)))
        if route.precursors:
            route.precursors.clear()
            self._tell_lost([(dst, max(route.seq, 0))], "the route could not be mended")

    def on_error(self, sender: Name, message: RouteError) -> None:
        told = []
        for dst, seq in message.lost:
            route = self.routes.get(dst)
            if route is not None and route.state == "up" and route.next_hop == sender and seq >= route.seq:
                route.seq = seq
                self._take_down(route)
                if route.precursors:
                    told.append((dst, seq))
                    route.precursors.clear()
        self._tell_lost(told, "the route led over the sender")

    def _tell_lost(self, lost: Iterable[tuple[Name, int]], why: str) -> None:
        told = tuple(lost)[:MOST_NAMES]
        if told and _allow(self._errors, self.parameters.rerr_per_second, self._context.now):
            self._context.broadcast(RouteError(told), why)

    # -- hellos, where routes expire and a profile wants them

    def _start_hello(self) -> None:
        seconds = self.parameters.hello_seconds
        if seconds and self._context.settings.route_expiry and not self._hello:
            self._hello = True
            self._context.set_timer("hello", seconds)

    def hello_is_due(self) -> None:
        """Say hello while there are routes; a next hop that is silent for too long is lost."""
        context, parameters = self._context, self.parameters
        self._hello = False
        active = dict.fromkeys(route.next_hop for route in self.routes.values() if self._is_up(route))
        if not active:
            self._heard.clear()
            return
        patience = parameters.hello_seconds * (parameters.hello_losses + 0.5)
        for neighbour in active:
            if context.now - self._heard.setdefault(neighbour, context.now) > patience:
                del self._heard[neighbour]
                self.link_failed(neighbour)
        trim(self._heard, context.settings.max_routes)
        context.broadcast(Hello(self.seq), "routes are in use")
        self._start_hello()

    def on_hello(self, sender: Name, message: Hello) -> None:
        self._heard[sender] = self._context.now
        trim(self._heard, self._context.settings.max_routes)


def _link(route: Route, neighbour: Name) -> None:
    """The neighbour uses this route, and is to be told when it is lost."""
    route.precursors[neighbour] = None
    trim(route.precursors, MOST_PRECURSORS)


def _allow(times: list[float], per_second: int, now: float) -> bool:
    """May one more be sent? ``times`` are those of the last second."""
    if not per_second:
        return True
    times[:] = [time for time in times if time > now - 1.0]
    if len(times) >= per_second:
        return False
    times.append(now)
    return True
