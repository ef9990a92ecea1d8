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

import msgspec

from recado.errors import RecadoError
from recado.protocols.machine import Effect, NodeId, Report, Rng, SetTimer
from recado.protocols.trees.messages import Interest, N
from recado.protocols.trees.settings import TreeSettings
from recado.protocols.trees.table import Nodes, Tables, speaks_of

Out = list[Effect]
"""Where handlers put their effects."""

LIVE, CANCELLED, CUT, OUTDATED = "live", "cancelled", "cut", "outdated"
"""A question builds rows, or only waits for its answers: it was cancelled, lost its parent, or a newer one came."""


class TreeError(RecadoError):
    """Something was asked of a node that it cannot do."""


class LimitReached(msgspec.Struct, frozen=True, gc=False):
    """A fact: a limit of ``TreeSettings`` was met, or ``filter`` rules, and what was refused because of it."""

    limit: str
    refused: str


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

    def __init__(self, op: int, type: str, parent: NodeId, pending: set[NodeId], born: int) -> None:
        self.op, self.type, self.parent, self.pending = op, type, parent, pending
        self.found: dict[str, tuple[NodeId, Interest]] = {}
        self.replied = self.done = self.disturbed = False
        self.born = born


class Own:
    """A subscription of this node's application.

    ``carrier`` is another one of this node whose tree it uses; ``along`` is one of another node whose tree it joined.
    """

    __slots__ = ("along", "carrier", "epoch", "filter", "id", "published", "type")

    def __init__(self, id: str, type: str, filter: str) -> None:
        self.id, self.type, self.filter = id, type, filter
        self.epoch = 0
        self.published = False
        self.carrier: str | None = None
        self.along: str | None = None

    def interest(self) -> Interest:
        return Interest(self.id, self.epoch, self.type, self.filter)


class Held(msgspec.Struct, frozen=True):
    """A notification that waits for its turn, and the subscriptions it is for."""

    message: N
    ids: tuple[str, ...]


class Recent:
    """A memory of the latest keys: at most ``most`` of them, and always the latest half of that."""

    __slots__ = ("_half", "_new", "_old")

    def __init__(self, most: int) -> None:
        self._half = max(1, most // 2)
        self._new: set[Hashable] = set()
        self._old: set[Hashable] = set()

    def add(self, key: Hashable) -> bool:
        """Remember the key; False if it was known."""
        if key in self._new or key in self._old:
            return False
        if len(self._new) >= self._half:
            self._old, self._new = self._new, set()
        self._new.add(key)
        return True

    def __len__(self) -> int:
        return len(self._new) + len(self._old)


class State:
    """Everything a node knows. ``now`` and ``rng`` are those of the step that is being taken."""

    __slots__ = (
        "after",
        "alone",
        "buffer",
        "component",
        "delivered",
        "due",
        "duplicates",
        "epoch",
        "greeted",
        "heard",
        "lost",
        "me",
        "neighbours",
        "now",
        "numbers",
        "older",
        "own",
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
        self.own: dict[str, Own] = {}
        self.tables = Tables()
        self.questions: dict[str, Question] = {}
        self.older: dict[tuple[str, int], Question] = {}
        self.searches: dict[int, Search] = {}
        self.seen = Recent(settings.max_seen)
        self.epoch = self.steps = 0
        self.token = 0
        self.numbers: dict[str, int] = {}
        # repair
        self.component, self.alone = 0, False
        self.greeted: dict[NodeId, tuple[int, bool]] = {}
        self.young: dict[NodeId, float] = {}
        self.heard = Recent(settings.max_kept)
        self.lost: dict[str, dict[str, None]] = {}
        self.due: dict[tuple[str, str], None] = {}
        # buffer and causal order
        self.buffer: deque[tuple[float, N]] = deque(maxlen=settings.buffer)
        self.after: dict[tuple[int, str], int] = {}
        self.waiting: dict[int, Held] = {}
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
