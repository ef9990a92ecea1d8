"""The broker: one session for each device, the log, and the desk.

An event is acknowledged when it is in the log (``Persist`` comes before the answer). One that is published again, with
the same id by the same user, is acknowledged again and not stored twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec

from recado.broker.constraints import read_constraints
from recado.broker.mailbox import Dropped
from recado.broker.state import Close, Push, Standing, Tell
from recado.filters.evaluate import matches
from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.model.values import parse_time
from recado.protocols import machine
from recado.protocols.machine import Effect, Persist, Rng, SetTimer
from recado.protocols.rudp import Acknowledged, Disconnected, RudpSettings, SendMessage
from recado.protocols.rudp.packet import decode
from recado.protocols.session import messages as m
from recado.sim.mobility.calls import BrokerSettings, Call, Switchboard
from recado.sim.mobility.keeping import EMPTY, instant, kept, restored
from recado.sim.mobility.wire import BROKER, Confirmed, Datagram, Invite, datagram


class Broker(Switchboard):
    def __init__(self, settings: BrokerSettings, rudp: RudpSettings) -> None:
        super().__init__(settings, rudp)
        self.log: list[tuple[float, str, bytes]] = []
        self._ids: dict[tuple[str, str], int] = {}
        self._kept: dict[str, Any] = EMPTY
        self._subscriptions: dict[int, Subscription] = {}  # by serial

    def handle(self, stimulus: machine.Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        self._rng = rng
        match stimulus:
            case machine.Received(_, Datagram(source, _, content)):
                self._received(source, content, now, rng)
            case machine.TimerFired(("rudp", conn)):
                if conn in self._conns:
                    self._tell_connection(self._conns[conn], stimulus, now)
            case machine.TimerFired(("accepted", call)):
                self._accept_again(call)
            case machine.TimerFired("keep"):
                self._keep()
                self._out.append(SetTimer("keep", self.settings.keep_seconds))
            case machine.TimerFired("sweep"):
                self.desk.sweep(len(self.log), instant(now), timedelta(seconds=self.settings.device_seconds))
                self._out.append(SetTimer("sweep", self.settings.sweep_seconds))
            case machine.Started(_, saved):
                self._start(saved)
        self._work(now)
        out, self._out = self._out, []
        return out

    def inspect(self) -> dict[str, Any]:
        users = {
            name: {"connected": user.connected, "waiting": sum(box.length for box in user.boxes.values())}
            for name, user in self.desk.users.items()
        }
        return {"log": len(self.log), "users": users, "subscriptions": self.desk.active}

    # -- what survives

    def _start(self, saved: Any) -> None:
        self._kept = saved.get("state", EMPTY)
        settings = self.settings
        self.desk = restored(self._kept, settings.bounds, timedelta(seconds=settings.grace_seconds))
        for standing in self.desk.standings.values():
            self._subscriptions[standing.serial] = _subscription(standing.record)
        while (entry := saved.get(f"log:{len(self.log)}")) is not None:
            self._append(*entry)
        for position in range(self._kept["dispatched"], len(self.log)):
            self._dispatch(position)
        self._out += [SetTimer("keep", settings.keep_seconds), SetTimer("sweep", settings.sweep_seconds)]

    def _append(self, at: float, user: str, event: bytes) -> int:
        self._ids[user, read_event(event).id] = len(self.log)
        self.log.append((at, user, event))
        return len(self.log) - 1

    def _keep(self) -> None:
        self._kept = kept(self._kept, self.desk, len(self.log))
        self._out.append(Persist("state", self._kept))

    def _dispatch(self, position: int) -> None:
        at, _, raw = self.log[position]
        event, desk = read_event(raw), self.desk
        found = [standing for standing in self._matching(event) if self.settings.queues or standing.user.connected]
        desk.publish(position, raw, instant(at), found)
        desk.flush(instant(at))
        desk.leaving.clear()

    def _matching(self, event: Event) -> Iterator[Standing]:
        for serial, subscription in self._subscriptions.items():
            standing = self.desk.standings.get(serial)
            if standing is not None and matches(subscription.whole_filter(), event):
                yield standing

    # -- sessions

    def _received(self, source: str, content: Any, now: float, rng: Rng) -> None:
        match content:
            case Invite():
                self._invited(content, source, rng)
            case Confirmed(id, version):
                call = self._calls.get(id)
                if call is not None and call.version == version:
                    self._confirmed(call, now)
            case bytes():
                packet = decode(content)
                call = None if packet is None else self._conns.get(packet.conn_id)
                if call is not None:
                    if call.applied == 0:
                        self._confirmed(call, now)  # it has our answer, or it could not send this
                    self._tell_connection(call, machine.Received(source, content), now)

    # -- what the machines below want

    def _work(self, now: float) -> None:
        """Carry out what the desk and the connections want, until they want nothing more."""
        busy = True
        while busy:
            busy = False
            for effect in self.desk.take_effects():
                self._effect(effect, now)
            while self._todo:
                call, wanted = self._todo.popleft()
                if self._calls.get(call.id) is call:  # else the session has ended meanwhile
                    self._wanted(call, wanted, now)
            busy = bool(self.desk.effects)

    def _effect(self, effect: Any, now: float) -> None:
        match effect:
            case Push(key, notes, fresh):
                for note in notes:
                    text = note.at.isoformat()
                    notify = m.Notify(note.nid, note.sub_id, msgspec.Raw(note.event), text, note.nid < fresh)
                    self._say(self._legs[key], notify, now, note.nid)
            case Tell(key, notices):
                for one in notices:
                    told = (
                        m.Gap(one.id, one.count, tuple(one.nids), cast(Dropped, one.reason))
                        if one.is_gap
                        else m.SubCancelled(one.id, one.sub_ids, one.reason)
                    )
                    self._say(self._legs[key], told, now, -one.id)
            case Close(key):
                self._forget(self._legs.pop(key))

    def _say(self, call: Call, message: m.FromService, now: float, number: int | None = None) -> None:
        """``number`` is the nid of a notification, or a notice's number below 0."""
        if not call.connection.failed:
            self._tell_connection(call, machine.Asked(SendMessage(m.encode([message]), (call.key, number))), now)

    def _wanted(self, call: Call, effect: Effect, now: float) -> None:
        """What the connection of a session wants or tells."""
        match effect:
            case machine.Send(str(address), packet):
                self._out.append(datagram(BROKER, address, packet))
            case SetTimer() | machine.CancelTimer():
                self._out.append(effect)
            case machine.Deliver(message):
                for request in m.from_agent(message):
                    self._requested(call, request, now)
            case machine.Report(Acknowledged((key, number))) if key == call.key and number is not None:
                if number < 0:
                    self.desk.noticed(call.key, [-number])
                else:
                    self.desk.acked(call.key, number)
            case machine.Report(Disconnected()):
                self._legs.pop(call.key, None)
                self.desk.lost(call.key, instant(now))
                call.key = 0  # until the next session update
                if not self.settings.queues:
                    self.desk.purge(self.desk.user(call.who[0]), tell=False)

    # -- requests

    def _requested(self, call: Call, request: Any, now: float) -> None:
        user = call.who[0]
        answer: m.FromService
        match request:
            case m.Publish(req, event):
                answer = m.Ok(req, self._published(user, bytes(event), now))
            case m.Subscribe(req, sub):
                standing = self._subscribe(call, msgspec.json.decode(sub), now)
                answer = m.Subscribed(req, standing.id, standing.expires_at.isoformat())
            case m.Renew(req, sub_id, _, ttl):
                answer = self._renew(user, req, sub_id, ttl, now)
            case m.Unsubscribe(req, sub_id):
                found = self.desk.user(user).standings.get(sub_id)
                if found is not None:
                    self.desk.cancel(found, position=len(self.log), now=instant(now))
                    self._keep()
                answer = m.Ok(req)
            case m.QuerySubs(req):
                answer = m.Subs(req, tuple(map(_members, self._active(user))))
            case m.DiscardSubs(req):
                self.desk.discard(user, call.who[1], position=len(self.log), now=instant(now))
                self._keep()
                answer = m.Ok(req)
            case m.Ping(req):
                answer = m.Ok(req)
            case _:
                return
        self._say(call, answer, now)

    def _active(self, user: str) -> list[Standing]:
        return [standing for standing in self.desk.user(user).standings.values() if standing.active]

    def _published(self, user: str, raw: bytes, now: float) -> int:
        known = self._ids.get((user, read_event(raw).id))
        if known is not None:
            return known
        position = self._append(now, user, raw)
        self._out.append(Persist(f"log:{position}", self.log[position]))
        self._dispatch(position)
        return position

    def _subscribe(self, call: Call, record: dict[str, Any], now: float) -> Standing:
        standing = self.desk.subscribe(
            call.who[0],
            record["id"],
            position=len(self.log),
            now=instant(now),
            expires_at=self._expiry(record, now),
            device=call.who[1],
            scope=call.who[1] if record.get("scope") == "this device" else "",
            constraints=read_constraints(record.get("constraints", [])),
            record=record,
        )
        self._subscriptions[standing.serial] = _subscription(record)
        self._keep()
        return standing

    def _expiry(self, record: dict[str, Any], now: float) -> datetime:
        if "expires_at" in record:
            return parse_time(record["expires_at"])
        return instant(now + float(record.get("ttl", self.settings.ttl_seconds)))

    def _renew(self, user: str, req: int, sub_id: str, ttl: float | None, now: float) -> m.Subscribed | m.Error:
        found = self.desk.user(user).standings.get(sub_id)
        if found is None:
            return m.Error(req, 404, "there is no such subscription")
        until = instant(now + (ttl or self.settings.ttl_seconds))
        standing = self.desk.renew(found, until, position=len(self.log), now=instant(now))
        self._subscriptions[standing.serial] = self._subscriptions[found.serial]
        self._keep()
        return m.Subscribed(req, standing.id, standing.expires_at.isoformat())


def _subscription(record: Any) -> Subscription:
    members = {name: record[name] for name in ("id", "type", "filter") if name in record}
    return read_subscription(msgspec.json.encode(members))


def _members(standing: Standing) -> dict[str, Any]:
    return {**standing.record, "expires_at": standing.expires_at.isoformat()}
