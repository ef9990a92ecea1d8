"""The state of one node, apart from the handlers that change it.

Every operation has a state of its own (section 2.0 of the tree document prints one status a node, which can serve for
one operation only). How long each is kept:

- A ``Question`` lives until every neighbour that was asked has answered, sent the same question, or lost its link.
  Each link carries exactly one message of a question in each direction, so nothing of it can arrive afterwards.
- A ``Search`` (MP) lives as long. When grafting, the branches it found are kept until they were used, at most
  ``max_kept`` of them.
- What was seen, and what floods were heard, is kept in a bounded memory that forgets the oldest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Literal

import msgspec

from recado.errors import FilterError, RecadoError
from recado.filters.evaluate import matches
from recado.model.memory import RecentKeys
from recado.protocols.machine import Effect, NodeId, Report, Rng, Send, SetTimer
from recado.protocols.pubsub import LimitReached, Settled, Unpublished
from recado.protocols.trees.messages import MB, Interest, N, Offer, Repair, Version
from recado.protocols.trees.table import Nodes, Row, Tables, speaks_of
from recado.protocols.wire import read_filter

# --- What can be chosen about the tree protocol, and its limits ------------------------------------------------------
#
# The defaults are the corrected protocol: content filtering, grafting, suppression of repeats. The other values exist
# to reproduce the tree document's variants (its sections 2.4 and 2.5) or are its future work (2.7, 7.2).


class SettingsError(RecadoError):
    """A setting that makes no sense."""


class TreeSettings(msgspec.Struct, frozen=True):
    """The settings of one node; usually the same in the whole overlay. ``COMMON`` names those that have to be."""

    filtering: Literal["content", "type"] = "content"
    """What relays look at. The application gets only what its filter asks for, in both cases."""
    mpp: Literal["graft", "aggregate", "stream"] = "graft"
    forwarding: Literal["seen", "subscriptions"] = "seen"
    """Drop repeats by their id, or let every notification say which subscriptions it serves on a link."""
    echo: bool = True
    """Does a publisher that subscribes to its own type hear its own events?"""
    share: bool = False
    """Let a subscription use the tree of another one whose filter covers it."""
    causal: bool = False
    causal_wait_seconds: float = 10.0
    """How long a notification waits for an earlier one that does not come."""
    buffer: int = 0
    """How many of its latest events a publisher keeps for subscriptions that come later."""
    buffer_seconds: float = 60.0
    repair_seconds: float = 1.0
    """How long a root waits after it heard of damage, so that one rebuild serves for all of it."""
    patience: float = 8.0
    """A publisher that lost a subscription waits this many times longer for the root's rebuild before it searches."""
    settle_seconds: float = 30.0
    """The longest time that a flood is expected to take; younger links are not trusted to be in one component."""
    attract: int = 0
    """How many links a node may ask for, and how many it accepts, so that those who share an interest are close."""
    attract_seconds: float = 10.0
    """How long a subscriber collects offers before it takes the best."""
    elect: bool = False
    """Let a candidate take the place of the last publisher of a type that leaves or fails."""
    max_rows: int = 100_000
    max_subscriptions: int = 10_000
    max_operations: int = 100_000
    max_seen: int = 65_536
    max_kept: int = 1_024
    """Finished searches of new publishers whose branches may still be needed for grafting, and floods remembered."""

    def __post_init__(self) -> None:
        for name in ("filtering", "mpp", "forwarding"):
            _check_choice(name, getattr(self, name))
        for name in (
            "causal_wait_seconds", "repair_seconds", "settle_seconds", "buffer_seconds", "attract_seconds", "patience",
        ):  # fmt: skip
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it has to be more than 0")
        for name in ("max_rows", "max_subscriptions", "max_operations", "max_seen", "max_kept"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it has to be at least 1")
        if self.buffer < 0:
            raise SettingsError(f"buffer is {self.buffer}; it is a number of events, 0 for none")
        if not 0 <= self.attract <= 1_000:
            raise SettingsError(f"attract is {self.attract}; it is a number of links up to 1,000, 0 for none")


COMMON = ("mpp", "forwarding", "attract", "elect")
"""Settings that have to be the same in the whole overlay: nodes would not understand each other otherwise."""

_CHOICES = {
    "filtering": ("content", "type"),
    "mpp": ("graft", "aggregate", "stream"),
    "forwarding": ("seen", "subscriptions"),
}


def _check_choice(name: str, value: str) -> None:
    if value not in _CHOICES[name]:
        raise SettingsError(f"{name} is {value!r}; it is one of {', '.join(_CHOICES[name])}")


# --- The state of one node, apart from the handlers that change it ---------------------------------------------------

Out = list[Effect]
"""Where handlers put their effects."""

LIVE, CANCELLED, CUT, OUTDATED = "live", "cancelled", "cut", "outdated"
"""A question builds rows, or only waits for its answers: it was cancelled, lost its parent, or a newer one came."""


class TreeError(RecadoError):
    """Something was asked of a node that it cannot do."""


class Question:
    """A question about one subscription, at one node. The root is its own ``parent``."""

    __slots__ = ("disturbed", "epoch", "id", "interest", "life", "parent", "pending", "told")

    def __init__(self, interest: Interest, parent: NodeId, pending: set[NodeId]) -> None:
        self.interest, self.id, self.epoch = interest, interest.id, interest.epoch
        self.parent = parent
        self.pending = pending
        self.told = False
        """Has this node said yes? It does so once."""
        self.life = LIVE
        self.disturbed = False


class Search:
    """A new publisher's search for subscriptions, at one node. The publisher is its own ``parent``."""

    __slots__ = ("born", "disturbed", "done", "found", "op", "parent", "pending", "replied", "type")

    def __init__(self, op: int, event_type: str, parent: NodeId, pending: set[NodeId], born: int) -> None:
        self.op, self.type, self.parent, self.pending = op, event_type, parent, pending
        self.found: dict[str, tuple[NodeId, Interest]] = {}
        self.replied = self.done = self.disturbed = False
        self.born = born


class LocalSubscription:
    """A subscription of this node's application.

    ``carrier`` is another one of this node whose tree it uses; ``along`` is one of another node whose tree it joined.
    """

    __slots__ = ("along", "carrier", "epoch", "filter", "id", "moves", "published", "type")

    def __init__(self, sub_id: str, event_type: str, text: str) -> None:
        self.id, self.type, self.filter = sub_id, event_type, text
        self.epoch = self.moves = 0
        """How often it has looked for a better place (``attract``)."""
        self.published = False
        self.carrier: str | None = None
        self.along: str | None = None

    def interest(self) -> Interest:
        return Interest(self.id, self.epoch, self.type, self.filter)


class OpenedLink:
    """A link that this node asked for: for the sake of which type, and how many hops that was to save."""

    __slots__ = ("gain", "type", "up")

    def __init__(self, event_type: str, gain: int) -> None:
        self.type, self.gain, self.up = event_type, gain, False


class Attraction:
    """The links that interests have made at one node, and what is under way about them: see ``attract``."""

    __slots__ = ("attached", "best", "opened", "promised", "seeks", "sent")

    def __init__(self) -> None:
        self.opened: dict[NodeId, OpenedLink] = {}
        self.attached: dict[NodeId, tuple[str, str]] = {}
        """Type and filter for the sake of which a neighbour asked for its link."""
        self.sent: dict[NodeId, int] = {}
        """How many seekers were passed on to each of them."""
        self.promised: dict[NodeId, None] = {}
        """Room is kept for these, for a while."""
        self.seeks: dict[str, int] = {}
        self.best: dict[str, Offer] = {}


class CallState:
    """A call for a publisher of a type, at one node. Who began it is its own ``parent``."""

    __slots__ = ("best", "branch", "done", "op", "parent", "pending", "published", "sure", "type", "wanted")

    def __init__(self, op: int, event_type: str, parent: NodeId, pending: set[NodeId]) -> None:
        self.op, self.type, self.parent, self.pending = op, event_type, parent, pending
        self.published = self.wanted = self.done = False
        self.sure = True
        self.best: tuple[int, int, str] | None = None
        """Force, hops with a minus sign, and type of the best candidate so far; ``branch`` leads there."""
        self.branch: NodeId = parent


class Election:
    """Who stands by for what, and what is under way about it: see ``elect``."""

    __slots__ = ("attempts", "calls", "candidate", "elected", "heard", "leaving", "yielding")

    def __init__(self) -> None:
        self.candidate: dict[str, None] = {}
        self.elected: dict[str, int] = {}
        """Types that this node publishes because it was elected, with its rank."""
        self.yielding: dict[str, None] = {}
        """Of these, those that it will give up in a moment, since there is somebody better."""
        self.leaving: dict[str, None] = {}
        """Types that this node has stopped to publish; it stays in their trees until somebody has taken over."""
        self.calls: dict[int, CallState] = {}
        self.attempts: dict[str, int] = {}
        self.heard: dict[str, float] = {}
        """When somebody else called for a type that this node was about to call for."""


class WaitingNotification(msgspec.Struct, frozen=True):
    """A notification that waits for its turn, and the subscriptions it is for."""

    message: N
    ids: tuple[str, ...]


class State:
    """Everything a node knows. ``now`` and ``rng`` are those of the step that is being taken."""

    __slots__ = (
        "address",
        "after",
        "alone",
        "attraction",
        "buffer",
        "component",
        "delivered",
        "due",
        "duplicates",
        "election",
        "epoch",
        "greeted",
        "heard",
        "local",
        "lost",
        "me",
        "neighbours",
        "now",
        "numbers",
        "older",
        "published",
        "questions",
        "refused",
        "rng",
        "searches",
        "seen",
        "settings",
        "steps",
        "tables",
        "token",
        "waiting",
        "young",
    )

    now: float
    rng: Rng

    def __init__(self, me: NodeId, settings: TreeSettings) -> None:
        self.me, self.settings = me, settings
        self.neighbours: Nodes = {}
        self.published: dict[str, None] = {}
        self.local: dict[str, LocalSubscription] = {}
        self.tables = Tables()
        self.questions: dict[str, Question] = {}
        self.older: dict[tuple[str, int], Question] = {}
        self.searches: dict[int, Search] = {}
        self.seen: RecentKeys[Hashable] = RecentKeys(settings.max_seen)
        self.epoch = self.steps = 0
        self.token = 0
        self.numbers: dict[str, int] = {}
        # repair
        self.component, self.alone = 0, False
        self.greeted: dict[NodeId, tuple[int, bool]] = {}
        self.young: dict[NodeId, float] = {}
        self.heard: RecentKeys[Hashable] = RecentKeys(settings.max_kept)
        self.lost: dict[str, dict[str, None]] = {}
        self.due: dict[tuple[str, str], None] = {}
        # buffer and causal order
        self.buffer: deque[tuple[float, N]] = deque(maxlen=settings.buffer)
        self.after: dict[tuple[int, str], int] = {}
        self.waiting: dict[int, WaitingNotification] = {}
        # attraction and election
        self.address = ""
        self.attraction, self.election = Attraction(), Election()
        # counters
        self.delivered = self.duplicates = self.refused = 0

    def publishes(self, pattern: str) -> bool:
        """Does this node publish a type that the subscription's type speaks of?"""
        published = self.published
        if pattern in published:
            return True
        return any(speaks_of(pattern, type) for type in published)

    def tick(self) -> int:
        """A number that orders what happened at this node."""
        self.steps += 1
        return self.steps


def later(state: State, kind: str, key: str, seconds: float, out: Out) -> None:
    """Do something after a wait. It is not put off when it is asked for again meanwhile."""
    if (kind, key) not in state.due:
        state.due[kind, key] = None
        out.append(SetTimer((kind, key), seconds))


def refuse(state: State, limit: str, what: str, out: Out) -> None:
    state.refused += 1
    out.append(Report(LimitReached(limit, what)))


# --- Rows come and go here, so that whatever depends on a row learns of it: its root, and the rows that ride on it
#
# A row of a shared subscription may ride on another row of the same node (see ``sharing``). When the row that carries
# it goes or is built anew, the root of the subscription that rode on it is asked to build a tree of its own.


def make_row(state: State, interest: Interest, toward: NodeId, out: Out, *, firm: bool) -> Row | None:
    """A row in place of whatever was known of the subscription; None, and a report, if there can be none."""
    rows = state.tables.rows
    earlier = rows.get(interest.id)
    if earlier is None and len(rows) >= state.settings.max_rows:
        refuse(state, "max_rows", f"a row for subscription {interest.id!r}", out)
        return None
    try:
        read_filter(interest.filter)
    except FilterError:
        refuse(state, "filter", f"a filter of subscription {interest.id!r} that nobody can read", out)
        return None
    if earlier is not None:
        drop_row(state, earlier, out)
    row = Row(interest, toward, state.tick(), firm)
    if state.publishes(interest.type):
        row.origin[state.me] = None
    state.tables.put(row)
    return row


def drop_row(state: State, row: Row, out: Out) -> None:
    remove(state, row)
    for rider in riders_of(state, row):
        rider.rides = None
        report_row(state, rider, out)


def remove(state: State, row: Row) -> None:
    """Take the row out of the tables; what to do about its riders is the caller's affair."""
    state.tables.drop(row.interest.id)
    carrier = state.tables.rows.get(row.rides) if row.rides is not None else None
    if carrier is not None:
        carrier.riders.pop(row.interest.id, None)


def riders_of(state: State, row: Row) -> list[Row]:
    rows = state.tables.rows
    return [rows[id] for id in row.riders if id in rows]


def withdraw(state: State, event_type: str, rows: list[Row], out: Out) -> None:
    """Rows without a source go, and the nodes toward their subscribers are told, in one message each."""
    told: dict[NodeId, list[Version]] = {}
    waiting = list(rows)
    for row in waiting:  # which may grow: rows that rode on one that goes have lost that source
        remove(state, row)
        id = row.interest.id
        for node in row.next:
            if node == state.me:
                report_unpublished(state, id, out)
            else:
                told.setdefault(node, []).append((id, row.epoch))
        for rider in riders_of(state, row):
            rider.rides = None
            if not rider.has_source:
                waiting.append(rider)
    for node, gone in told.items():
        out.append(Send(node, MB(event_type, tuple(gone)), "no publisher is left on this side"))


# -- what roots are told


def rebuild_later(state: State, subscription_id: str, epoch: int, out: Out) -> None:
    """The tree of this node's subscription is damaged. What happens within a short time is mended together."""
    local = state.local.get(subscription_id)
    if local is not None and local.epoch == epoch and local.carrier is None:
        later(state, "rebuild", subscription_id, state.settings.repair_seconds, out)


def report_row(state: State, row: Row, out: Out) -> None:
    """Tell the root of damage, once."""
    id, epoch = row.interest.id, row.epoch
    if state.me in row.next:
        rebuild_later(state, id, epoch, out)
    elif not row.disturbed:
        row.disturbed = True
        for node in row.next:
            out.append(Send(node, Repair(id, epoch), "a branch of the tree is lost"))


# -- what the application is told


def _family(state: State, sub_id: str) -> list[LocalSubscription]:
    """A subscription of this node, and those that it carries."""
    return [local for local in state.local.values() if sub_id in (local.id, local.carrier)]


def report_settled(state: State, subscription_id: str, published: bool, out: Out) -> None:
    """Everyone was asked."""
    for local in _family(state, subscription_id):
        out.append(Report(Settled(local.id, published)))
        if local.published and not published:
            out.append(Report(Unpublished(local.id)))
        local.published = published
        _look_around(state, local, out)


def report_published(state: State, subscription_id: str, out: Out) -> None:
    """A publisher came to a subscription of this node."""
    for local in _family(state, subscription_id):
        if not local.published and subscription_id not in state.questions:
            out.append(Report(Settled(local.id, True)))
        local.published = True
        _look_around(state, local, out)


def report_unpublished(state: State, subscription_id: str, out: Out) -> None:
    """The last publisher went."""
    for local in _family(state, subscription_id):
        local.published = False
        out.append(Report(Unpublished(local.id)))
        if local.along is not None:  # a publisher may just have found the tree that it joined, so it asks for itself
            rebuild_later(state, local.id, local.epoch, out)
            local.along = None
        _look_around(state, local, out)


def _look_around(state: State, local: LocalSubscription, out: Out) -> None:
    """A subscription's publishers have come or gone: look for a better place, or for a candidate."""
    settings = state.settings
    if settings.attract and local.published and local.carrier is None and local.moves < settings.attract:
        later(state, "seek", local.id, settings.attract_seconds, out)
    if settings.elect and not local.published:
        call_later(state, local.type, out)


def call_later(state: State, event_type: str, out: Out) -> None:
    """Ask for candidates; not at once, since others may ask for the same."""
    state.election.attempts.pop(event_type, None)
    wait = state.settings.repair_seconds * state.rng.uniform(1.0, max(1.0, state.settings.patience))
    later(state, "call", event_type, wait, out)


# --- The notification buffer (section 2.7 of the tree document): late subscribers get what was published before them
#
# A publisher keeps its latest events for a time. When a subscription's tree reaches it, the events that match are sent
# along that tree alone, right behind the answer that built it. A tree that is rebuilt brings the same again, which the
# subscriber recognises; so the buffer also fills the gap that a failure has torn. Off unless ``buffer`` is set.


def keep(state: State, message: N) -> None:
    _expire(state)
    state.buffer.append((state.now, message))


def _expire(state: State) -> None:
    oldest = state.now - state.settings.buffer_seconds
    while state.buffer and state.buffer[0][0] < oldest:
        state.buffer.popleft()


def replay(state: State, interest: Interest, out: Out) -> None:
    """A subscription has come within reach: send it what it missed."""
    row = state.tables.rows.get(interest.id)
    if row is None or row.epoch != interest.epoch:
        return
    _expire(state)
    for _, message in state.buffer:
        event = message.event
        if speaks_of(interest.type, event.type) and matches(read_filter(interest.filter), event):
            copy = N(message.token, message.number, event, (interest.id,), message.after)
            for node in row.next:
                if node != state.me:
                    out.append(Send(node, copy, "a late subscriber gets what is in the buffer"))
