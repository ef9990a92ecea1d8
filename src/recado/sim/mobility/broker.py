"""The broker of a simulation: ``recado.broker`` behind the sessions of devices, on a simulated disk.

What decides is the broker that the service runs, with the same recovery (``recado.broker.persistence``), the same
recognition of events that were sent again (``recado.broker.dedup``) and the index that a service begins with. What is
simulated is around it: the signalling (INVITE opens a session, or updates it, and 200 is repeated until ACK), RUDP over
the simulated network, and a disk whose writes take ``sync_seconds`` to be safe.

As in the service, an event is acknowledged when it is in the log, and a change of subscriptions when the state is
stored; events are dispatched from the log; all else is stored now and then. A session is in force when it is confirmed;
only then its device has a consumer at the broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec

from recado.broker import stimuli as s
from recado.broker.constraints import read_constraints
from recado.broker.core import Broker
from recado.broker.dedup import SeenEvent, SeenEvents
from recado.broker.persistence import add_notifications, matchable, read_subscriptions, start_position, wanted_from
from recado.broker.state import Bounds, BrokerSettings, DropReason, Notice, SubscriptionState, User
from recado.matching.staged import StagedIndex
from recado.model.codec import read_event, write_flat
from recado.model.values import parse_time
from recado.protocols import machine
from recado.protocols.machine import Asked, CancelTimer, Deliver, Effect, Report, Rng, Send, SetTimer
from recado.protocols.rudp import Acknowledged, Disconnected, MoveTo, RudpConnection, RudpSettings, SendMessage
from recado.protocols.rudp.packet import addressee
from recado.protocols.session import messages as m
from recado.sim.mobility.disk import LogEntry, SimulatedLog, SimulatedStore, instant
from recado.sim.mobility.wire import BROKER, Accepted, Confirmed, Datagram, Invite, Unknown, datagram, simulated_key

T1_SECONDS = 0.5
REMEMBERED = 4_096
"""So many of the newest events are recognised after a restart when they are sent again."""


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """``queues`` off is baseline B2: who is not connected gets nothing. ``sync_seconds`` is what an fsync takes."""

    bounds: Bounds = Bounds()
    window: int = 32
    sync_seconds: float = 0.0
    store_seconds: float = 0.5
    sweep_seconds: float = 600.0
    ttl_seconds: float = 3_600.0
    grace_seconds: float = 3_600.0
    device_seconds: float = 86_400.0
    queues: bool = True


class Call:
    """A session of a device; ``key`` is its consumer at the broker, 0 while it has none."""

    __slots__ = ("address", "applied", "conn", "connection", "id", "key", "seen", "version", "wait", "who")

    def __init__(self, call_id: str, who: tuple[str, str], conn: int, connection: RudpConnection) -> None:
        self.id, self.who, self.conn, self.connection = call_id, who, conn, connection
        self.version = self.applied = self.key = 0
        self.address = ""
        self.seen: int | None = None
        self.wait = T1_SECONDS


class Publication(msgspec.Struct):
    """An event that is to be stored, unless it is known, and whom to answer."""

    call: Call
    req: int
    seen: SeenEvent
    entry: LogEntry | None


class BrokerNode:
    """A ``Machine``: the broker, its sessions, and its disk."""

    def __init__(self, settings: NodeSettings, rudp: RudpSettings) -> None:
        self.settings, self._rudp = settings, rudp
        self._calls: dict[str, Call] = {}
        self._conns: dict[int, Call] = {}
        self._consumers: dict[int, Call] = {}
        self._keys = 0
        self._out: list[Effect] = []
        self._rng: Rng
        self._todo: deque[tuple[Call, Effect]] = deque()  # what the connections want
        self._effects: deque[s.Effect] = deque()  # of the broker, to be carried out
        self._index = StagedIndex(plain=True)
        self._ending: list[SubscriptionState] = []
        self._seen = SeenEvents()
        self._position = 0  # up to which events are dispatched
        self._waiting: list[Publication] = []
        self._committing: list[Publication] = []
        self._flushes: list[Callable[[float], None]] = []  # what is to be said when the state is stored
        self._storing: list[Callable[[float], None]] | None = None
        self.broker: Broker
        self.log: SimulatedLog
        self._store: SimulatedStore

    def handle(self, stimulus: machine.Stimulus, now: float, rng: Rng) -> Sequence[Effect]:
        self._rng = rng
        match stimulus:
            case machine.Received(_, Datagram(source, _, content)):
                self._receive(source, content, now, rng)
            case machine.TimerFired(("rudp", conn)):
                if conn in self._conns:
                    self._tell_connection(self._conns[conn], stimulus, now)
            case machine.TimerFired(("accepted", call)):
                self._accept_again(call)
            case machine.TimerFired("log"):
                self._finish_commit(now)
            case machine.TimerFired("state"):
                self._finish_store(now)
            case machine.TimerFired("store"):
                self._store_soon()
                self._out.append(SetTimer("store", self.settings.store_seconds))
            case machine.TimerFired("sweep"):
                self._apply(s.Sweep(self.log.end, timedelta(seconds=self.settings.device_seconds)), now)
                self._out.append(SetTimer("sweep", self.settings.sweep_seconds))
            case machine.Started(_, saved):
                self._start(saved, now)
        self._work(now)
        out, self._out = self._out, []
        return out

    def inspect(self) -> dict[str, Any]:
        return {"log": self.log.end, **self.broker.inspect()}

    def user(self, name: str) -> User:
        return self.broker.state.user(name)

    def connection(self, device: str, user: str) -> RudpConnection:
        """The connection of a device that is connected."""
        return self._consumers[self.user(user).consumers[device].key].connection

    # -- what survives a crash -----------------------------------------------------------------------------------------

    def _start(self, saved: Any, now: float) -> None:
        """Go on where the disk says, as a service does."""
        settings = self.settings
        self.log, self._store = SimulatedLog(saved), SimulatedStore(saved)
        self.broker = Broker(
            BrokerSettings(bounds=settings.bounds, grace=timedelta(seconds=settings.grace_seconds)),
            next_notice=(self._store.starts << 32) + 1,
            holding=True,
        )
        self._out += self._store.sync()
        for position, entry in self.log.read(max(0, self.log.end - REMEMBERED)):
            self._seen.remember(read_event(entry.text).id, entry.text, position)
        loaded = self._store.load()
        deque(self.broker.restore(loaded), 0)
        self._apply(s.Release(), now)
        pairs = read_subscriptions(loaded)
        deque(self.broker.restore_subscriptions(pairs), 0)
        self._ending += [subscription for subscription, _ in pairs if not subscription.active]
        self._index.add_many(wanted_from(pairs, loaded.dispatched or 0), checked=True)
        self._position, _ = start_position(loaded, self.log.first, self.log.end)
        self._dispatch(now)
        self._apply(s.Recovered(), now)
        self._out += [SetTimer("store", settings.store_seconds), SetTimer("sweep", settings.sweep_seconds)]

    def _store_soon(self, then: Callable[[float], None] | None = None) -> None:
        """Store what changed; ``then`` is called when it is safe."""
        if then is not None:
            self._flushes.append(then)
        if self._storing is not None:
            return  # the next batch begins when this one is safe
        batch, changes = self.broker.take_batch(self._position)
        add_notifications(batch, changes)
        self._store.write(batch)
        self._storing, self._flushes = self._flushes, []
        self._out.append(SetTimer("state", self.settings.sync_seconds))

    def _finish_store(self, now: float) -> None:
        self._out += self._store.sync()
        waiting, self._storing = self._storing or [], None
        for then in waiting:
            then(now)
        if self._flushes:
            self._store_soon()

    # -- events --------------------------------------------------------------------------------------------------------

    def _publish(self, call: Call, req: int, raw: bytes, now: float) -> None:
        event = read_event(raw)
        text = write_flat(event)
        (seen,), again = self._seen.look_up(call.who[0], [event.id], [text])
        entry = None if again else LogEntry(now, call.who[0], text)
        self._waiting.append(Publication(call, req, seen, entry))
        self._commit(now)

    def _commit(self, now: float) -> None:
        """Write what waits, all together, unless a commit is under way."""
        if self._committing or not self._waiting:
            return
        self._committing, self._waiting = self._waiting, []
        entries = [one.entry._replace(at=now) for one in self._committing if one.entry is not None]
        self.log.write(entries)
        self._out.append(SetTimer("log", self.settings.sync_seconds))

    def _finish_commit(self, now: float) -> None:
        """What was written is safe: answer, and dispatch it."""
        positions, effects = self.log.sync()
        self._out += effects
        done, self._committing = self._committing, []
        new = iter(positions)
        for one in done:
            if one.entry is not None:
                one.seen.position = next(new)
            self._say(one.call, m.Ok(one.req, one.seen.position), now)
        self._dispatch(now)
        self._commit(now)

    def _dispatch(self, now: float) -> None:
        """Follow the log: everything up to its end is given to the broker, at the instant at which it was accepted."""
        known = self.broker.state.subscriptions
        for position, entry in self.log.read(self._position):
            ids = self._index.match(read_event(entry.text))
            found = [known[serial] for text in ids if (serial := int(text)) in known]
            if not self.settings.queues:
                found = [one for one in found if one.user.connected]
            self._position = position + 1
            self._effects.extend(self.broker.handle(s.Dispatch([(position, entry.text, found)]), instant(entry.at)))
        self._carry_out(now)
        self._forget_ended()

    def _forget_ended(self) -> None:
        left = []
        for subscription in self._ending:
            if subscription.until > self._position:
                left.append(subscription)
            else:
                self._index.remove(str(subscription.serial))
        self._ending = left

    # -- the broker and its effects ------------------------------------------------------------------------------------

    def _apply(self, stimulus: s.Stimulus, now: float) -> Sequence[s.Effect]:
        effects = self.broker.handle(stimulus, instant(now))
        self._effects.extend(effects)
        self._carry_out(now)
        return effects

    def _carry_out(self, now: float) -> None:
        while self._effects:
            match self._effects.popleft():
                case s.Push(key, notifications, fresh):
                    for one in notifications:
                        text, queued = one.at.isoformat(), one.nid < fresh
                        notify = m.Notify(one.nid, one.sub_id, msgspec.Raw(one.event), text, queued)
                        self._say(self._consumers[key], notify, now, one.nid)
                case s.Tell(key, notices):
                    for notice in notices:
                        self._say(self._consumers[key], _message(notice), now, -notice.id)
                case s.Close(key):
                    self._forget(self._consumers.pop(key))
                case s.Ended(subscription):
                    self._ending.append(subscription)
                case s.DispatchFailed(_, position, error):
                    raise RuntimeError(f"the event at {position} could not be dispatched") from error

    # -- signalling ----------------------------------------------------------------------------------------------------

    def _receive(self, source: str, content: Any, now: float, rng: Rng) -> None:
        match content:
            case Invite():
                self._invite(content, source, rng)
            case Confirmed(call_id, version):
                call = self._calls.get(call_id)
                if call is not None and call.version == version:
                    self._confirm(call, now)
            case bytes():
                conn = addressee(content)
                call = None if conn is None else self._conns.get(conn)
                if call is not None:
                    if call.applied == 0:
                        self._confirm(call, now)  # it has our answer, or it could not send this
                    self._tell_connection(call, machine.Received(source, content), now)

    def _invite(self, invite: Invite, source: str, rng: Rng) -> None:
        call = self._calls.get(invite.call)
        if call is None and invite.version > 1:
            self._out.append(datagram(BROKER, source, Unknown(invite.call, invite.version)))
            return
        if call is None:
            conn = rng.randrange(2**32)
            key = simulated_key(conn)
            connection = RudpConnection(
                self._rudp, conn, invite.conn, source, local_key=key, remote_key=invite.key, timer=("rudp", conn)
            )
            call = Call(invite.call, (invite.user, invite.device), conn, connection)
            self._calls[invite.call] = self._conns[conn] = call
        if invite.version >= call.version:
            if invite.version > call.version:
                call.version, call.address, call.wait = invite.version, source, T1_SECONDS
                call.seen = invite.seen
            self._accept(call)

    def _accept(self, call: Call) -> None:
        self._out.append(
            datagram(BROKER, call.address, Accepted(call.id, call.version, call.conn, simulated_key(call.conn)))
        )
        if call.applied < call.version:
            self._out.append(SetTimer(("accepted", call.id), call.wait))

    def _accept_again(self, call_id: str) -> None:
        call = self._calls.get(call_id)
        if call is None or call.applied == call.version:
            return
        call.wait *= 2
        if call.wait <= 32 * T1_SECONDS:
            self._accept(call)
        elif call.applied == 0:
            self._forget(call)

    def _confirm(self, call: Call, now: float) -> None:
        """The session is in force: move its connection, and attach the device if RUDP had given it up."""
        if call.applied == call.version:
            return
        call.applied = call.version
        self._out.append(CancelTimer(("accepted", call.id)))
        if call.version > 1:
            self._tell_connection(call, Asked(MoveTo(call.address)), now)
        if call.key == 0:
            self._keys += 1
            call.key = self._keys
            self._consumers[call.key] = call
            self._apply(s.Attach(*call.who, call.key, self.settings.window, call.seen), now)

    def _forget(self, call: Call) -> None:
        self._calls.pop(call.id, None)
        self._conns.pop(call.conn, None)
        self._out += [CancelTimer(("rudp", call.conn)), CancelTimer(("accepted", call.id))]

    # -- connections ---------------------------------------------------------------------------------------------------

    def _tell_connection(self, call: Call, stimulus: machine.Stimulus, now: float) -> None:
        self._todo.extend((call, effect) for effect in call.connection.handle(stimulus, now, self._rng))

    def _work(self, now: float) -> None:
        """Carry out what the connections want, until they want nothing more."""
        while self._todo:
            call, effect = self._todo.popleft()
            if self._calls.get(call.id) is call:  # else the session has ended meanwhile
                self._take(call, effect, now)

    def _say(self, call: Call, message: m.FromService, now: float, number: int | None = None) -> None:
        """``number`` is the nid of a notification, or a notice's number below 0."""
        if not call.connection.failed:
            self._tell_connection(call, Asked(SendMessage(m.encode([message]), (call.key, number))), now)

    def _take(self, call: Call, effect: Effect, now: float) -> None:
        match effect:
            case Send(str(address), packet):
                self._out.append(datagram(BROKER, address, packet))
            case SetTimer() | CancelTimer():
                self._out.append(effect)
            case Deliver(message):
                for request in m.from_agent(message):
                    self._request(call, request, now)
            case Report(Acknowledged((key, number))) if key == call.key and number is not None:
                if number < 0:
                    self._apply(s.ConfirmNotices(call.key, [-number]), now)
                else:
                    self._apply(s.Acknowledge(call.key, number), now)
            case Report(Disconnected()):
                self._consumers.pop(call.key, None)
                self._apply(s.ConsumerLost(call.key), now)
                call.key = 0  # until the next session update
                if not self.settings.queues:
                    self._apply(s.Purge(call.who[0], tell=False), now)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _request(self, call: Call, request: Any, now: float) -> None:
        user = call.who[0]
        match request:
            case m.Publish(req, event):
                self._publish(call, req, bytes(event), now)
            case m.Subscribe(req, sub):
                self._subscribe(call, req, msgspec.json.decode(sub), now)
            case m.Renew(req, sub_id, _, ttl):
                self._renew(call, req, sub_id, ttl, now)
            case m.Unsubscribe(req, sub_id):
                found = self.user(user).subscriptions.get(sub_id)
                if found is not None:
                    self._apply(s.Cancel(found, self.log.end), now)
                    self._forget_ended()
                self._answer_stored(call, m.Ok(req))
            case m.DiscardSubs(req):
                self._apply(s.Discard(user, call.who[1], self._position), now)
                self._forget_ended()
                self._answer_stored(call, m.Ok(req))
            case m.QuerySubs(req):
                self._say(call, m.Subs(req, tuple(map(_members, self._active(user)))), now)
            case m.Ping(req):
                self._say(call, m.Ok(req), now)

    def _answer_stored(self, call: Call, answer: m.FromService) -> None:
        """Answer when all that changed is stored."""
        self._store_soon(lambda now: self._say(call, answer, now))

    def _active(self, user: str) -> list[SubscriptionState]:
        return [one for one in self.user(user).subscriptions.values() if one.active]

    def _subscribe(self, call: Call, req: int, record: dict[str, Any], now: float) -> None:
        user, device = call.who
        wish = s.Subscribe(
            user,
            record["id"],
            self.log.end,
            self._expiry(record, now),
            device,
            device if record.get("scope") == "this device" else "",
            read_constraints(record.get("constraints", [])),
            {name: value for name, value in record.items() if name not in ("id", "ttl", "expires_at", "scope")},
        )
        self._enter(call, req, wish, now)

    def _expiry(self, record: dict[str, Any], now: float) -> datetime:
        if "expires_at" in record:
            return parse_time(record["expires_at"])
        return instant(now + float(record.get("ttl", self.settings.ttl_seconds)))

    def _renew(self, call: Call, req: int, sub_id: str, ttl: float | None, now: float) -> None:
        found = self.user(call.who[0]).subscriptions.get(sub_id)
        if found is None:
            self._say(call, m.Error(req, 404, "there is no such subscription"), now)
            return
        until = instant(now + (ttl or self.settings.ttl_seconds))
        self._enter(call, req, s.Renew(found, until, self.log.end), now)

    def _enter(self, call: Call, req: int, wish: s.Subscribe | s.Renew, now: float) -> None:
        effects = self._apply(wish, now)
        subscription = next(effect.subscription for effect in effects if isinstance(effect, s.Subscribed))
        self._index.add(matchable(subscription), checked=True)
        self._forget_ended()
        self._answer_stored(call, m.Subscribed(req, subscription.id, subscription.expires_at.isoformat()))


def _message(notice: Notice) -> m.FromService:
    if notice.is_gap:
        return m.Gap(notice.id, notice.count, tuple(notice.nids), cast(DropReason, notice.reason))
    return m.SubCancelled(notice.id, notice.sub_ids, notice.reason)


def _members(subscription: SubscriptionState) -> dict[str, Any]:
    return {"id": subscription.id, **subscription.record, "expires_at": subscription.expires_at.isoformat()}
