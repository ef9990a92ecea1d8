"""The state of one node, apart from the handlers that change it.

The document builds its databases as classes that grow out of each other; here a node has parts, each of which may be
absent, and its role follows from them:

    role       layer   child
    joining    -       -
    sub        -       x
    k          x       x       a stand-by: member of the layer and child at once
    super      x       -

What events need (``Events``) exists once there were any, so that a sub node without them takes little memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from recado.errors import RecadoError
from recado.filters.normal import normal_form
from recado.model.event import Event
from recado.model.filter import FALSE, Filter, Or
from recado.model.subscription import Subscription
from recado.protocols.algebra import name_of
from recado.protocols.machine import Effect, NodeId, Report, Rng, Send, SetTimer
from recado.protocols.supernodes.members import SPACE, Endpoint, Home, Member, Membership, View
from recado.protocols.supernodes.messages import EventId, RoleChanged
from recado.protocols.supernodes.settings import SuperNodeSettings
from recado.protocols.wire import write_filter

Out = list[Effect]
"""Where handlers put their effects."""

JOINING, SUB, K_NODE, SUPER, LEFT = "joining", "sub", "k", "super", "left"
ROLES = (JOINING, SUB, K_NODE, SUPER, LEFT)

MOST_SEEDS = 16


class SuperNodeError(RecadoError):
    """Something was asked of a node that it cannot do."""


class Joining:
    """A join by filter that is under way (2.5)."""

    __slots__ = (
        "contact", "covered", "redirected", "redirects", "representative", "restarts", "since", "steps", "tried",
        "vain",
    )  # fmt: skip

    def __init__(self, now: float) -> None:
        self.contact: Endpoint | None = None
        """Who was asked and has not answered."""
        self.representative = False
        """Is it asked to be the father? Otherwise for a representative."""
        self.tried: dict[Endpoint, None] = {}
        self.restarts = self.redirects = self.steps = 0
        self.vain = 0
        """How often all that it knows were asked in vain."""
        self.covered = False
        """Was it sent to a super node with another filter, which covers its own?"""
        self.redirected = False
        """Has a K node answered? Then the filter has stand-bys, and it is worth waiting (R9)."""
        self.since = now


NO_WATCHDOG = SetTimer("watchdog", 0.0)


class Child:
    """What a node knows as a child of a super node."""

    __slots__ = (
        "above",
        "chain",
        "contacts",
        "covered",
        "father",
        "heard",
        "introduced",
        "place",
        "regular",
        "round",
        "seeds",
        "since",
        "tail",
        "watchdog",
    )

    def __init__(self, father: Endpoint, now: float) -> None:
        self.father = father
        self.covered = False
        self.tail = 0
        """Is its filter covered by the father's, not equal? And of how many at the end of the chain?"""
        self.above: Endpoint | None = None
        """The father's father, if he has one."""
        self.chain: tuple[Endpoint, ...] = ()
        """All children in the order of the last keep-alive, this node too."""
        self.place = 0
        self.seeds: tuple[Endpoint, ...] = ()
        """Super nodes that the father told of with the last keep-alive (R47)."""
        self.heard = self.since = now
        self.watchdog = NO_WATCHDOG
        """How it was set when the father was heard last."""
        # if brothers are found by asking: see ``enquiry``
        self.contacts: tuple[Endpoint, ...] = ()
        """Whom it still has to ask; the first has been asked."""
        self.introduced = False
        """Has somebody told the brothers of it?"""
        self.round = 0
        """Of the last keep-alive."""
        self.regular = False
        """Is it set like that at every keep-alive, as long as the place is the same?"""

    @property
    def due(self) -> float:
        """When the watchdog expires."""
        return self.heard + self.watchdog.after_seconds

    def brothers(self, me: NodeId) -> list[Endpoint]:
        return [one for one in self.chain if one != me]


class Brood:
    """The children of a sub node, in a family that is too large for one list (``large``)."""

    __slots__ = ("children", "closed", "round", "rounds")

    def __init__(self) -> None:
        self.children: dict[Endpoint, int] = {}
        self.round = self.closed = 0
        self.rounds = False


class Handover:
    """A family that its father gives away while he still serves it (``leaving``)."""

    __slots__ = ("children", "filter", "heir", "name")

    def __init__(self, name: str, text: str, children: tuple[Endpoint, ...]) -> None:
        self.name, self.filter, self.children = name, text, children
        self.heir: Endpoint | None = None


class Sizer:
    """What a sequencer counts to find out how many more super nodes can be paid (2.10)."""

    __slots__ = ("cap", "entries", "generated", "rate", "ready", "upload")

    def __init__(self, upload: int) -> None:
        self.upload = upload
        """The node's upload at the last evaluation."""
        self.entries = 0
        self.rate = self.cap = 0.0
        self.generated = self.ready = 0


class Layer:
    """What a node knows as a member of the layer, or while it becomes one."""

    __slots__ = (
        "active", "announced", "asked", "base", "batching", "children", "closed", "covered", "departed", "down",
        "endpoints_loaded", "entered", "fanout", "filters_loaded", "full", "given", "key", "leave_timer", "measured",
        "membership", "neighbours", "number", "pending_joins", "pending_k", "pending_leaves", "piece",
        "repair_seconds", "retry_seconds", "round", "rounds", "sizer", "suspects", "tries", "up", "why",
    )  # fmt: skip

    def __init__(self, key: int, membership: Membership, why: str, now: float, settings: SuperNodeSettings) -> None:
        self.key, self.membership, self.why, self.entered = key, membership, why, now
        self.base: View = membership.view
        """What was seen by downloading, without the events themselves."""
        self.endpoints_loaded = self.filters_loaded = self.announced = self.active = False
        self.piece = self.tries = 0
        self.asked: Member | None = None
        """Who was asked for a piece of the filters, or again for endpoints."""
        self.retry_seconds = settings.join_retry_seconds
        self.repair_seconds = settings.repair_seconds
        self.pending_joins: dict[int, Member] = {}
        self.full: dict[int, None] = {}
        """Of the pending joins, those that are told with their filter in full."""
        self.pending_leaves: dict[int, None] = {}
        self.leave_timer = False
        self.suspects: dict[int, float] = {}
        """Members that could not be reached, and when; until their departure is spread."""
        self.departed: dict[int, Endpoint] = {}
        """The last members that were taken for gone, if some of them are asked again (``reunite_share``)."""
        self.batching = False
        """Does it aggregate joins now? Leaders do, and whoever was taken for one."""
        self.number = 0
        """Of the membership events that it spread."""
        self.fanout = float(settings.max_fanout)
        self.up = self.down = 0
        """Bytes, keep-alives left out: the balance by which it works more or less."""
        self.children: dict[Endpoint, int] = {}
        """In the order in which they came, each with the number of keep-alive rounds that had begun before."""
        self.measured = 0
        """Its upload when that was last compared with the maximum."""
        self.given = 0
        """How much of its upload since then children have sent."""
        self.covered: dict[Endpoint, str] = {}
        """Of the children, those with filters of their own."""
        self.pending_k: dict[Endpoint, None] = {}
        """Children that were told to enter the layer."""
        self.round = self.closed = 0
        """The last round of keep-alives, and the last that came back."""
        self.rounds = False
        """Is a keep-alive due? Not without children."""
        self.sizer: Sizer | None = None
        self.neighbours: dict[int, Endpoint] = {}
        """Partners for event repair, the latest last."""


class Publication(NamedTuple):
    """An event and its identifier."""

    id: EventId
    event: Event


class Flow:
    """The events of one publisher at a node that delivers them in order (``order``)."""

    __slots__ = ("complete", "held", "last", "numbers", "stamper", "tries")

    def __init__(self, last: int) -> None:
        self.last = self.complete = last
        """All up to ``last`` was delivered or given up; all after ``complete`` was delivered."""
        self.held: dict[int, tuple[Event, int]] = {}
        """What waits for others, each with the number that comes before it."""
        self.numbers: list[int] = []
        """The latest that were delivered."""
        self.stamper: Endpoint | None = None
        self.tries = 0


class Events:
    """The events that a node has had, in the order in which they came."""

    __slots__ = (
        "before", "bodies", "flows", "history", "logs", "recovered", "repairing", "seen", "stamps", "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        # if events are ordered: see ``order``
        self.flows: dict[int, Flow] = {}
        self.logs: dict[int, dict[int, Event]] = {}
        self.stamps: dict[EventId, tuple[Endpoint | None, dict[str, int]]] = {}
        self.before: dict[EventId, int] = {}
        self.waiting = False
        self.bodies: dict[EventId, tuple[Event, float]] = {}
        """With the time when they came; those that were only published or relayed too."""
        self.history: dict[EventId, None] = {}
        """Those that the node's filter accepts, the latest last."""
        self.seen: dict[EventId, None] = {}
        """Identifiers are kept longer than bodies: what comes again is known."""
        self.recovered: dict[EventId, None] = {}
        """Of the bodies, those that a repair brought: whether they were ever published, nobody knows."""
        self.repairing = False


class Guard:
    """What a node remembers of its peers to tell what they may send (``guard``)."""

    __slots__ = ("dropped", "expected", "links")

    def __init__(self) -> None:
        self.links: dict[NodeId, tuple[float, float]] = {}
        """Of each sender how much more it may send, and when that was so."""
        self.expected: dict[tuple[NodeId, type], float] = {}
        """Which answers were asked for, and when."""
        self.dropped: dict[str, int] = {}


class State:
    """Everything a node knows. ``now`` and ``rng`` are those of the step that is being taken."""

    __slots__ = (
        "benefactor", "bootstrap", "born", "brood", "child", "delivered", "duplicates", "events", "filter", "former",
        "former_key", "guard", "handover", "home", "joining", "late", "layer", "left", "me", "moving", "name", "now",
        "number", "outbox", "rng", "role", "seeds", "settings", "size_of", "source", "started", "subscriptions",
        "told",
    )  # fmt: skip

    now: float
    rng: Rng
    me: Endpoint

    def __init__(self, me: NodeId, settings: SuperNodeSettings, home: Home, size_of: Callable[[Any], int]) -> None:
        if isinstance(me, tuple):
            raise SuperNodeError(f"{me!r} is no name of a super-node peer; it is a text or a number")
        self.me, self.settings, self.home, self.size_of = me, settings, home, size_of
        self.role = JOINING
        self.joining: Joining | None = None
        self.child: Child | None = None
        self.layer: Layer | None = None
        self.events: Events | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.filter = NO_FILTER
        self.name = name_of(NO_FILTER)
        self.seeds: dict[Endpoint, None] = {}
        self.bootstrap: tuple[Endpoint, ...] = ()
        self.started = False
        self.born = 0.0
        self.source = self.number = 0
        """Under which key it publishes, and how much it has published."""
        self.outbox: list[Publication] = []
        self.delivered = self.duplicates = self.late = 0
        # what a node has while it changes its place in good order: see ``leaving``
        self.left = False
        self.moving = ""
        self.former: Child | None = None
        self.former_key: int | None = None
        self.handover: Handover | None = None
        self.benefactor: Endpoint | None = None
        self.brood: Brood | None = None
        self.guard = Guard() if settings.guard else None
        self.told: Endpoint | None = None
        """Which father knows this node's earlier events."""


NO_FILTER = write_filter(FALSE)
"""The filter of a node without a subscription."""


def filter_of(subscriptions: dict[str, Subscription]) -> str:
    """The canonical text of what a node wants: the disjunction of its subscriptions."""
    return _canonical(tuple(dict.fromkeys(one.whole_filter() for one in subscriptions.values())))


@lru_cache(1 << 15)
def _canonical(filters: tuple[Filter, ...]) -> str:
    if not filters:
        return NO_FILTER
    return write_filter(normal_form(filters[0] if len(filters) == 1 else Or(filters)))


def household(state: State) -> Layer | Brood | None:
    """Where a node keeps its children: a super node in its layer, a sub node in its brood."""
    return state.layer if state.layer is not None and state.child is None else state.brood


def draw_key(state: State) -> int:
    return state.rng.randrange(SPACE)


def set_role(state: State, why: str, out: Out) -> None:
    """Say what the node is, if that has changed."""
    if state.child is not None:
        role = SUB if state.layer is None else K_NODE
    else:
        role = SUPER if state.layer is not None else LEFT if state.left else JOINING
    if role != state.role:
        state.role = role
        out.append(Report(RoleChanged(role, why)))


def add_seeds(state: State, seeds: tuple[Endpoint, ...]) -> None:
    """Remember super nodes that the node may ask; the oldest are forgotten."""
    known = state.seeds
    for seed in seeds:
        if seed != state.me:
            known.pop(seed, None)
            known[seed] = None
    while len(known) > MOST_SEEDS:
        del known[next(iter(known))]


def pick(rng: Rng, things: Any) -> Any:
    """One of a sequence, by one draw."""
    return things[int(rng.random() * len(things))]


def send(state: State, to: Endpoint, message: Any, why: str, out: Out) -> None:
    """Send, and count it in the balance of a member of the layer."""
    out.append(Send(to, message, why))
    if state.layer is not None:
        state.layer.up += state.size_of(message)


def receive(state: State, message: Any) -> None:
    """Count a message in the balance of a member of the layer."""
    if state.layer is not None:
        state.layer.down += state.size_of(message)
