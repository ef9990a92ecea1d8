"""Publish/subscribe on top of PCACHE and AODV (section 7).

A publication has two phases. The publisher first collects the subscriptions that match, from the store around it; then
it sends one copy to every subscriber. Copies that share the next hop travel together in a ``Group`` as long as they
share it: every node on the way parts them by its own routes. A copy that is alone, or whose subscriber has no route
yet, is a packet of AODV.

Route requests that start at the same time disturb each other, so copies leave one after another (pacing).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from recado.model.event import Event, check_event
from recado.model.subscription import Subscription, check_id
from recado.protocols.algebra import answers, covers
from recado.protocols.machine import Deliver, Received, Report, Stimulus
from recado.protocols.pubsub import Notified
from recado.protocols.sensors.aodv import Aodv
from recado.protocols.sensors.context import BOOT, Context, trim
from recado.protocols.sensors.messages import Collected, Data, Flood, Group, Id, Item, Name, SensorError
from recado.protocols.sensors.pampa import Hold, Pampa
from recado.protocols.sensors.pcache import Cache, Gather
from recado.protocols.wire import write_filter


def matches(event: Event, item: Item) -> bool:
    """What PCACHE asks of this layer; every answer is worked out once in a process."""
    return answers(event)(item.filter)


def way_of(stimulus: Stimulus, settings: Any) -> tuple[Name, int] | None:
    """Of the message that made a node notify: who published, and over how many hops it came.

    None if no message did, since the publication is the node's own, or if the message does not tell.
    """
    match stimulus:
        case Received(_, Data(pid, _, _, _, ttl)):
            return pid[0], max(settings.aodv_parameters().diameter - ttl + 1, 1)
        case Received(_, Group(pid, _, _, hops_left)):
            return pid[0], max(settings.group_hops - hops_left + 1, 1)
    return None


class Own:
    """A subscription of this node's application."""

    __slots__ = ("announced", "filter", "key", "version")

    def __init__(self, key: Id, text: str) -> None:
        self.key, self.filter = key, text
        self.version = 0
        self.announced = False
        """Is it in the store? Not if another one of this node covers it."""


class Handover:
    """A copy, or a group of copies, that waits for its slot; without ``next_hop`` it is one copy, for AODV.

    ``hops_left`` counts down from ``group_hops`` at the publisher, for single copies too.
    """

    __slots__ = ("dests", "event", "hops_left", "next_hop", "pid")

    def __init__(self, pid: Id, event: Event, dests: tuple[Name, ...], next_hop: Name | None, hops_left: int) -> None:
        self.pid, self.event, self.dests, self.next_hop, self.hops_left = pid, event, dests, next_hop, hops_left


class Delivery:
    """The top layer of one node: its application's subscriptions, and publications on their way."""

    __slots__ = (
        "_aodv", "_cache", "_context", "_groups", "_next_free", "_number", "_outstanding", "_pampa", "_published",
        "_refreshing", "notified", "queue", "subscriptions",
    )  # fmt: skip

    def __init__(self, context: Context, pampa: Pampa, cache: Cache, aodv: Aodv) -> None:
        self._context, self._pampa, self._cache, self._aodv = context, pampa, cache, aodv
        self.subscriptions: dict[str, Own] = {}
        self.notified: dict[Id, None] = {}
        self.queue: deque[tuple[float, Handover]] = deque()
        self._groups: dict[tuple[Id, frozenset[Name]], None] = {}
        self._number = self._published = 0
        self._next_free = 0.0
        self._refreshing = False
        self._outstanding: Name | None = None
        """``adaptive``: the destination whose route is being looked for."""

    # -- subscriptions

    def subscribe(self, subscription: Subscription) -> Id:
        """7.1; the key under which it is stored. A SensorError if the id is in use, or there are too many."""
        context, settings = self._context, self._context.settings
        id = check_id(subscription.id)
        if id in self.subscriptions:
            raise SensorError(f"node {context.me!r} already has a subscription {id!r}")
        if len(self.subscriptions) >= settings.max_subscriptions:
            raise SensorError(f"node {context.me!r} has {len(self.subscriptions):,} subscriptions, max_subscriptions")
        text = write_filter(subscription.whole_filter())
        self._number += 1
        own = Own((context.me, context.boots * BOOT + self._number), text)
        covered = settings.covering and self._is_covered(own)
        self.subscriptions[id] = own
        if settings.system in ("proposed", "subscription-flooding") and not covered:
            self._announce(own, "a new subscription")
        return own.key

    def unsubscribe(self, sub_id: str) -> None:
        """7.6: copies are cancelled by a newer version without a filter."""
        own = self.subscriptions.pop(sub_id, None)
        if own is None:
            raise SensorError(f"node {self._context.me!r} has no subscription {sub_id!r}")
        if not own.announced:
            return
        own.version += 1
        self._cache.forget_own(Item(own.key, own.version, ""), "a subscription is cancelled")
        if self._context.settings.covering:
            self._uncover(own)

    def _uncover(self, gone: Own) -> None:
        """What a cancelled subscription covered may have no copies: announce the widest, unless others cover them."""
        uncovered = [one for one in self.subscriptions.values() if covers(gone.filter, one.filter)]
        certain = [one for one in self.subscriptions.values() if one.announced and one not in uncovered]
        for place, one in enumerate(uncovered):
            wider = [
                other
                for number, other in enumerate(uncovered)
                if number < place or not covers(one.filter, other.filter)  # of equal ones, the first
            ]
            if not any(covers(other.filter, one.filter) for other in (*certain, *wider)):
                self._announce(one, "what covered this subscription is cancelled")

    def refresh(self) -> None:
        """Store everything anew, so that copies that were lost are made again."""
        self._refreshing = False
        for own in self.subscriptions.values():
            if own.announced:
                self._announce(own, "copies of a subscription are renewed")

    def _announce(self, own: Own, why: str) -> None:
        settings = self._context.settings
        own.version += 1
        own.announced = True
        self._cache.store((Item(own.key, own.version, own.filter, settings.lease_seconds),), why)
        if settings.refresh_seconds and not self._refreshing:
            self._refreshing = True
            self._context.set_timer("refresh", settings.refresh_seconds)

    def _is_covered(self, own: Own) -> bool:
        return any(
            one is not own and one.announced and covers(one.filter, own.filter) for one in self.subscriptions.values()
        )

    # -- publications

    def publish(self, event: Event) -> Id:
        """7.3, or the way of a baseline (8)."""
        check_event(event)
        context = self._context
        self._published += 1
        pid = (context.me, context.boots * BOOT + self._published)
        match context.settings.system:
            case "proposed":
                self._cache.query(event, pid)
            case "subscription-flooding":
                self._deliver_to(pid, event, self._cache.local_match(event).values())
            case _:
                id = self._pampa.new_id()
                self._pampa.broadcast(Flood(id, event), "a publication for everybody")
                self._notify(id, event)
        return pid

    def on_flood(self, sender: Name, message: Flood, signal_dbm: float | None) -> None:
        self._notify(message.id, message.event)
        self._pampa.hold(message, sender, signal_dbm)

    def decide_flood(self, hold: Hold) -> None:
        if self._pampa.is_relay(hold):
            self._context.broadcast(hold.message, "few copies of it were heard")

    def on_collected(self, gather: Gather) -> None:
        """The end of the first phase."""
        assert gather.pid is not None
        assert type(gather.criterion) is Event
        gather.served = self._deliver_to(gather.pid, gather.criterion, gather.items.values())

    def _deliver_to(self, pid: Id, event: Event, items: Iterable[Item]) -> dict[Name, None]:
        """One copy for every subscriber, however many of its filters match; who they are."""
        dests = dict.fromkeys(item.key[0] for item in items)
        others = [dest for dest in dests if dest != self._context.me]
        if len(others) < len(dests):
            self._notify(pid, event)
        grouped = self._dispatch(pid, event, others, self._context.settings.group_hops, first=True)
        if dests:
            self._context.out.append(Report(Collected(pid, event.id, tuple(dests), grouped)))
        return dests

    def on_late(self, gather: Gather, items: list[Item]) -> None:
        """LATE: answers that come after the time of the query are served one by one."""
        assert gather.pid is not None
        assert type(gather.criterion) is Event
        for item in items:
            dest = item.key[0]
            if dest in gather.served:
                continue
            gather.served[dest] = None
            self._context.count("late")
            if dest == self._context.me:
                self._notify(gather.pid, gather.criterion)
            else:
                hops_left = self._context.settings.group_hops
                self._send_alone(Handover(gather.pid, gather.criterion, (dest,), None, hops_left))

    def _dispatch(
        self, pid: Id, event: Event, dests: Iterable[Name], hops_left: int, *, first: bool
    ) -> tuple[int, ...]:
        """DISPATCH (7.4); the sizes of the groups."""
        settings = self._context.settings
        ways: dict[Name, list[Name]] = {}
        unknown = []
        for dest in dests:
            next_hop = self._aodv.next_hop(dest)
            if next_hop is None:
                unknown.append(dest)
            else:
                ways.setdefault(next_hop, []).append(dest)
        paced = first and settings.pace_mode == "all"
        grouped = []
        for next_hop, together in ways.items():
            if len(together) > 1 and settings.grouping:
                grouped.append(len(together))
                self._hand_over(Handover(pid, event, tuple(together), next_hop, hops_left), paced=paced)
            else:
                for dest in together:
                    self._hand_over(Handover(pid, event, (dest,), None, hops_left), paced=paced)
        for dest in unknown:
            self._send_alone(Handover(pid, event, (dest,), None, hops_left))
        return tuple(grouped)

    def on_group(self, sender: Name, message: Group) -> None:
        context = self._context
        known = (message.pid, frozenset(message.dests))
        if message.hops_left <= 0 or known in self._groups:
            context.count("refused.group")
            return
        self._groups[known] = None
        trim(self._groups, context.settings.remembered)
        if context.me in message.dests:
            self._notify(message.pid, message.event)
        others = [dest for dest in message.dests if dest != context.me]
        self._dispatch(message.pid, message.event, others, message.hops_left - 1, first=False)

    def group_failed(self, neighbour: Name, message: Group) -> None:
        self._aodv.link_failed(neighbour)
        for dest in message.dests:
            self._send_alone(Handover(message.pid, message.event, (dest,), None, message.hops_left))

    def on_data(self, packet: Data) -> None:
        self._notify(packet.pid, packet.event)

    def _notify(self, pid: Id, event: Event) -> None:
        """The up-call, once for each publication, and only for what the application asked for."""
        if pid in self.notified:
            self._context.count("refused.repeated")
            return
        matched = answers(event)
        wanted = tuple(id for id, own in self.subscriptions.items() if matched(own.filter))
        if not wanted:
            if self._context.settings.system in ("proposed", "subscription-flooding"):
                self._context.count("refused.unwanted")
            return
        self.notified[pid] = None
        trim(self.notified, self._context.settings.remembered)
        self._context.out.append(Deliver(Notified(event, wanted)))

    # -- pacing (7.5)

    def _send_alone(self, handover: Handover) -> None:
        if self._context.settings.pace_mode == "adaptive":
            self._send_adaptively(handover)
        else:
            self._hand_over(handover, paced=True)

    def _hand_over(self, handover: Handover, *, paced: bool) -> None:
        context = self._context
        if not paced:
            self._leave(handover)
            return
        slot = max(context.now, self._next_free)
        if slot > context.now and len(self.queue) >= context.settings.max_handovers:
            context.count("dropped.handover")
            return
        self._next_free = slot + context.settings.pace_seconds
        if slot <= context.now:
            self._leave(handover)
            return
        self.queue.append((slot, handover))
        if len(self.queue) == 1:
            context.set_timer("pace", slot - context.now)

    def slot_is_due(self) -> None:
        if self._context.settings.pace_mode == "adaptive":
            self._outstanding = None
            self._go_on()
            return
        if self.queue:
            _, handover = self.queue.popleft()
            self._leave(handover)
        if self.queue:
            self._context.set_timer("pace", self.queue[0][0] - self._context.now)

    def _leave(self, handover: Handover) -> None:
        """The copy goes to the next hop of its group, or to AODV."""
        context = self._context
        if handover.next_hop is not None:
            group = Group(handover.pid, handover.event, handover.dests, handover.hops_left)
            context.send(handover.next_hop, group, "these subscribers share the next hop")
        else:
            behind = max(context.settings.group_hops - handover.hops_left, 0)  # a liar may say that more are left
            ttl = max(self._aodv.parameters.diameter - behind, 1)
            self._aodv.send(Data(handover.pid, handover.event, context.me, handover.dests[0], ttl))

    def _send_adaptively(self, handover: Handover) -> None:
        """Copies with a route leave at once; one route is looked for at a time, the next when it is found."""
        context = self._context
        dest = handover.dests[0]
        if self._aodv.next_hop(dest) is not None or dest == self._outstanding:
            self._leave(handover)
        elif self._outstanding is None and not self.queue:
            self._look_for(handover)
        elif len(self.queue) >= context.settings.max_handovers:
            context.count("dropped.handover")
        else:
            self.queue.append((context.now, handover))

    def _look_for(self, handover: Handover) -> None:
        self._outstanding = handover.dests[0]
        self._context.set_timer("pace", self._context.settings.pace_seconds)
        self._leave(handover)

    def on_route(self, dest: Name) -> None:
        """AODV has a route to a node."""
        if dest == self._outstanding:
            self._context.set_timer("pace", self._context.settings.pace_least_seconds)

    def _go_on(self) -> None:
        while self.queue and self._outstanding is None:
            _, handover = self.queue.popleft()
            if self._aodv.next_hop(handover.dests[0]) is not None:
                self._leave(handover)
            else:
                self._look_for(handover)
