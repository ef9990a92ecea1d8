"""What an agent knows, and the effects of the step it is in; the other modules of the agent work on it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from recado.model.memory import RecentKeys
from recado.model.values import parse_time
from recado.protocols.machine import CancelTimer, Effect, NodeId, Persist, Report, Send, SetTimer, TimerKey
from recado.protocols.session import messages as m
from recado.protocols.session.commands import AgentSettings, Dropped
from recado.protocols.session.messages import (
    WIDEST,
    DiscardSubs,
    Notify,
    Ping,
    Publish,
    QuerySubs,
    Renew,
    Replay,
    Replayed,
    Subs,
    Subscribe,
    Unsubscribe,
)

# --- Which notifications came, which the application has done with, and up to where that may be confirmed ------------
#
# A notification is handed over once: its nid is remembered, as one of the last ``remembered``. The service repeats only
# what it does not know to be confirmed, which is at most a window, and after a crash of the service also what was
# confirmed in its last moments; so the memory need not reach far. Nothing is concluded from a nid being lower than
# another, because the mailbox of a device and that of its user may be emptied one after the other.
#
# ACK confirms everything up to a nid: the highest one below every notification of this connection that the application
# still has in hand. When many were finished behind such a one, ACK names them one by one.
#
# A subscription that nobody reads must not hold up the others. So what one holds beyond a quarter of the window is
# added to the window that the service is granted, up to ``WIDEST`` times the window and ``HELD_BYTES``; there it ends,
# and the session stands still.


HELD_BYTES = 64 * 2**20
"""Events in hand, before the window grows no more."""


class Inbox:
    """``open`` are the notifications of this connection that are not confirmed, sorted; ``held`` those handed over
    that the application is not done with. ``log`` is the service's log that all these numbers are of.
    """

    def __init__(self, remembered: int, kept: int) -> None:
        self.handed = 0
        self.repeated = 0
        self.seen: int | None = None
        self.log = ""
        self.held: dict[int, Notify] = {}
        self.open: deque[int] = deque()
        self.unconfirmed = 0
        self.notices: list[int] = []
        self._remembered = remembered
        self._nids: RecentKeys[int] = RecentKeys(remembered)
        self._notices: RecentKeys[int] = RecentKeys(remembered)
        self._kept: deque[int] = deque(maxlen=kept)

    def restore(self, saved: dict[str, Any]) -> None:
        self.seen, self.log = saved.get("seen"), saved.get("log", "")
        for nid in saved.get("nids", ()):
            self._nids.add(nid)
            self._kept.append(nid)

    def dump(self) -> dict[str, Any]:
        return {"seen": self.seen, "nids": list(self._kept), "log": self.log}

    def start_connection(self) -> None:
        """A new connection has nothing open; what the application holds may come again on it."""
        self.open.clear()
        self.unconfirmed = 0
        self.notices.clear()

    def begin_anew(self) -> None:
        """The numbers are of another log: forget them. What the application has in hand is its own."""
        self.seen = None
        self.held.clear()
        self._nids, self._notices = RecentKeys(self._remembered), RecentKeys(self._remembered)
        self._kept.clear()

    def add(self, notify: Notify) -> bool:
        """Note a notification; is it for the application?"""
        nid, opened = notify.nid, self.open
        if not opened or nid > opened[-1]:
            opened.append(nid)
        elif nid not in opened:
            opened.append(nid)
            self.open = deque(sorted(opened))
        if not self._nids.add(nid):
            self.repeated += 1
            return False
        self.held[nid] = notify
        self.handed += 1
        return True

    def add_notice(self, notice: int) -> bool:
        """Note a notice, to be confirmed; is it new?"""
        self.notices.append(notice)
        return self._notices.add(notice)

    def release(self, nids: Iterable[int]) -> None:
        held, kept = self.held, self._kept
        for nid in nids:
            if nid in held:
                del held[nid]
                kept.append(nid)

    def advance(self) -> None:
        """Count what may be confirmed now and was not before."""
        opened, held = self.open, self.held
        last = None
        while opened and opened[0] not in held:
            last = opened.popleft()
            self.unconfirmed += 1
        if last is not None and (self.seen is None or last > self.seen):
            self.seen = last

    def confirm(self) -> tuple[int | None, tuple[int, ...]]:
        """What an ACK says now; None and nothing if there is nothing to confirm."""
        notices = tuple(self.notices)
        self.notices.clear()
        late = bool(self.open) and self.seen is not None and self.open[0] < self.seen
        if late or not self.unconfirmed:  # a lower one came late and is in hand: an ACK would speak for it, too
            return None, notices
        self.unconfirmed = 0
        return self.seen, notices

    # -- beside a subscription that nobody reads

    @property
    def apart(self) -> int:
        """How many are done though an earlier one is in hand, at least."""
        return len(self.open) - len(self.held)

    def confirm_apart(self) -> tuple[int, ...]:
        """Those are confirmed, too."""
        held, opened = self.held, self.open
        self.open = deque(nid for nid in opened if nid in held)
        return tuple(nid for nid in opened if nid not in held)

    def holding(self) -> Counter[str]:
        """How many the application has in hand, by subscription."""
        return Counter(notify.sub_id for notify in self.held.values())

    def wanted_window(self, window: int, granted: int) -> int:
        """The window that lets every subscription go on; ``granted`` is what it is now."""
        share = window // 4
        parked = sum(count - share for count in self.holding().values() if count > share)
        wanted = min(window + parked, WIDEST * window)
        if wanted > granted and sum(len(notify.event) for notify in self.held.values()) > HELD_BYTES:
            return granted
        return wanted


# --- The requests of an agent that are not answered yet, in the order in which they were made ------------------------
#
# All of them are sent again on a new connection, with the same ``req`` (the mobility document, 8.5): the service does
# each once. A replay is the exception in form: it goes on after the last event that came.


Request: TypeAlias = Subscribe | Unsubscribe | Renew | QuerySubs | DiscardSubs | Publish | Replay | Ping


class Waiting(NamedTuple):
    """``tries`` counts how often the service was too busy for it."""

    message: Request
    ref: Any
    tries: int = 0


class Outbox:
    """``limit`` is applied by ``overflow`` only: what was sent on a connection is bounded by whoever sends it."""

    def __init__(self, first_request: int, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self.waiting: dict[int, Waiting] = {}
        self.busy: list[int] = []
        self.parts: dict[int, list[tuple[dict[str, Any], ...]]] = {}
        self._next = first_request

    def number(self) -> int:
        req = self._next
        self._next += 1
        return req

    def add(self, message: Request, ref: Any) -> None:
        self.waiting[message.req] = Waiting(message, ref)

    def take(self, req: int | None) -> Waiting | None:
        """The request that an answer belongs to; None if it was answered before."""
        return self.waiting.pop(req, None) if req is not None else None

    def join_parts(self, answer: Subs) -> Subs | None:
        """The whole list when its last part is here; part 0 begins one, also if it is sent a second time."""
        if answer.part == 0:
            self.parts[answer.req] = []
        parts = self.parts.get(answer.req)
        if parts is None or answer.part != len(parts):
            return None
        parts.append(answer.subs)
        if answer.more:
            return None
        del self.parts[answer.req]
        return Subs(answer.req, tuple(chain.from_iterable(parts)))

    def put_off(self, req: int, waiting: Waiting) -> None:
        """The service was too busy: keep the request, to be sent again by ``again``."""
        self.waiting[req] = waiting._replace(tries=waiting.tries + 1)
        self.busy.append(req)

    def again(self) -> list[Request]:
        """What was put off and still waits."""
        busy, self.busy = self.busy, []
        return [self.waiting[req].message for req in busy if req in self.waiting]

    def overflow(self) -> Waiting | None:
        """Make room for one more: the oldest, if there are too many."""
        if len(self.waiting) < self.limit:
            return None
        self.dropped += 1
        return self.waiting.pop(next(iter(self.waiting)))

    def clear(self) -> list[Waiting]:
        """Give up all of them."""
        given_up = list(self.waiting.values())
        self.waiting.clear()
        self.dropped += len(given_up)
        return given_up

    def all(self) -> list[Request]:
        return [waiting.message for waiting in self.waiting.values()]

    def oldest(self) -> int | None:
        """The request that waits longest; a replay may last."""
        return next((req for req, one in self.waiting.items() if not isinstance(one.message, Replay)), None)

    def note_progress(self, event: Replayed) -> Waiting | None:
        """Note how far a replay has come, so that sending it again asks for the rest."""
        waiting = self.waiting.get(event.req)
        if waiting is None or not isinstance(waiting.message, Replay):
            return None
        asked = waiting.message
        if asked.position is not None and event.position < asked.position:
            return None  # sent before the connection broke, and heard already
        limit = None if asked.limit is None else asked.limit - 1
        rest = msgspec.structs.replace(asked, position=event.position + 1, since=None, limit=limit)
        self.waiting[event.req] = waiting._replace(message=rest)
        return waiting


# --- The subscriptions that an agent looks after: their records, until when they are granted, when to renew them
#
# A record that was made with ``expires_at`` ends then and is never renewed. Any other is renewed when ``renew_at`` of
# its lifetime is over (the mobility document, 8.4). The lifetime is counted from the answer's arrival, with the
# service's expiry read on the agent's clock, but never longer than what was asked for, so that a wrong clock costs
# early renewals and not subscriptions.


_OWN_MEMBERS = ("id", "filter", "filters", "syntax", "type", "constraints", "semantic", "scope", "webhook")
_SHORTEST_SECONDS = 1.0
SAVED = "subscription:"
"""Each is persisted under a key of its own, so that one more costs the same however many there are."""


class AgentSubscription:
    """One subscription. ``turn`` tells an outdated renewal from the current one."""

    __slots__ = ("expires_at", "record", "turn")

    def __init__(self, record: dict[str, Any], expires_at: str) -> None:
        self.record = record
        self.expires_at = expires_at
        self.turn = 0

    @property
    def ttl(self) -> float | None:
        ttl = self.record.get("ttl")
        return None if ttl is None else float(ttl)


class Table:
    def __init__(self, renew_at: float) -> None:
        self.subscriptions: dict[str, AgentSubscription] = {}
        self.leaving: dict[str, int] = {}
        self._renew_at = renew_at
        self._due: list[tuple[float, str, int]] = []

    def put(self, record: Mapping[str, Any], expires_at: str, now: float) -> None:
        """A subscription is in place until ``expires_at``; one whose end was asked for meanwhile stays away."""
        sub_id = str(record["id"])
        if sub_id in self.leaving:
            return
        found = self.subscriptions.get(sub_id)
        if found is None:
            found = self.subscriptions[sub_id] = AgentSubscription(dict(record), expires_at)
        else:
            found.record, found.expires_at = dict(record), expires_at
        self.extend(sub_id, expires_at, now)

    def extend(self, sub_id: str, expires_at: str, now: float) -> None:
        found = self.subscriptions.get(sub_id)
        if found is None:
            return
        found.expires_at = expires_at
        found.turn += 1
        if "expires_at" not in found.record:
            due = now + self._renew_at * lifetime(found, now)
            heappush(self._due, (due, sub_id, found.turn))

    def remove(self, sub_id: str) -> AgentSubscription | None:
        return self.subscriptions.pop(sub_id, None)

    def begin_leaving(self, sub_id: str) -> None:
        """The application cancels it: nothing that is still under way brings it back."""
        self.leaving[sub_id] = self.leaving.get(sub_id, 0) + 1
        self.remove(sub_id)

    def left(self, sub_id: str) -> None:
        count = self.leaving.get(sub_id, 0)
        if count > 1:
            self.leaving[sub_id] = count - 1
        else:
            self.leaving.pop(sub_id, None)

    def due(self, now: float) -> list[str]:
        """Those to renew by now; each is named once until it is extended."""
        found = []
        while self._due and self._due[0][0] <= now:
            _, sub_id, turn = heappop(self._due)
            if self._current(sub_id, turn):
                found.append(sub_id)
        return found

    def next_due(self) -> float | None:
        while self._due and not self._current(self._due[0][1], self._due[0][2]):
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def _current(self, sub_id: str, turn: int) -> bool:
        found = self.subscriptions.get(sub_id)
        return found is not None and found.turn == turn

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Subscriptions of an earlier run; when they are due is known when the service has been asked."""
        for key, one in saved.items():
            if key.startswith(SAVED):
                self.subscriptions[key.removeprefix(SAVED)] = AgentSubscription(dict(one["record"]), one["expires_at"])

    def dump(self, sub_id: str) -> dict[str, Any] | None:
        """What to keep of a subscription; None if it is gone."""
        found = self.subscriptions.get(sub_id)
        return None if found is None else {"record": found.record, "expires_at": found.expires_at}


def lifetime(subscription: AgentSubscription, now: float) -> float:
    """How many seconds it has from now on."""
    try:
        left = parse_time(subscription.expires_at).timestamp() - now
    except ValueError:
        left = 0.0
    asked = subscription.ttl
    if left <= 0:
        left = asked or _SHORTEST_SECONDS
    return max(_SHORTEST_SECONDS, left if asked is None else min(left, asked))


def own_record(members: Mapping[str, Any]) -> dict[str, Any]:
    """A record to subscribe with, from what SUBS says of a subscription: without what the service added."""
    return {name: members[name] for name in _OWN_MEMBERS if members.get(name) is not None}


# --- What an agent knows, and the effects of the step it is in; the other modules of the agent work on it ------------

State = Literal["new", "dialling", "greeting", "connected", "waiting", "ended"]


class AgentRequest(NamedTuple):
    """The ref of a request that the agent makes by itself."""

    purpose: Literal["start", "check", "renew", "resubscribe", "ping"]
    sub_id: str = ""


class AgentState:
    """``begun`` is true once the start policy is carried out: only then requests of the application are sent."""

    def __init__(self, settings: AgentSettings, service: NodeId) -> None:
        self.settings = settings
        self.service = service
        self.state: State = "new"
        self.outbox = Outbox(settings.first_request, settings.outbox)
        self.inbox = Inbox(settings.remembered, settings.kept_nids)
        self.table = Table(settings.renew_at)
        self.window = self.granted = settings.window
        self.crowded = False
        self.begun = settings.existing == "leave"
        self.attempt = 0
        self.connected_at = 0.0
        self.lost_at = 0.0  # when the last connection that lasted was lost
        self.heard_at = 0.0
        self.pinged = False
        self.oldest: int | None = None
        self.oldest_at = 0.0
        self.ack_set = False
        self.effects: list[Effect] = []
        self.sends: list[m.FromAgent] = []

    def done(self) -> Sequence[Effect]:
        """The effects of this step; what is to be sent goes as one frame, after everything that must be kept first."""
        effects = self.effects
        if self.sends:
            effects.append(Send(self.service, tuple(self.sends)))
            self.sends = []
        self.effects = []
        return effects

    def report(self, fact: Any) -> None:
        self.effects.append(Report(fact))

    def set_timer(self, timer: TimerKey, after_seconds: float) -> None:
        self.effects.append(SetTimer(timer, after_seconds))

    def cancel_timers(self, *timers: TimerKey) -> None:
        self.effects.extend(CancelTimer(timer) for timer in timers)

    def ask(self, message: Request, ref: AgentRequest) -> None:
        """Send a request of the agent's own."""
        self.outbox.add(message, ref)
        self.sends.append(message)

    def drop(self, waiting: Waiting, reason: str) -> None:
        """Give up a request; the application hears of those that it made."""
        if isinstance(waiting.message, m.Unsubscribe):
            self.table.left(waiting.message.sub_id)
        if not isinstance(waiting.ref, AgentRequest):
            self.report(Dropped(waiting.ref, reason, self.outbox.dropped))

    def keep(self, sub_id: str) -> None:
        """Persist what the table says of a subscription."""
        self.effects.append(Persist(SAVED + sub_id, self.table.dump(sub_id)))


def raw(record: dict[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(record))
