"""The messages of the tree protocol, with the names of the tree document's section 2.0.

``Q``, ``C``, ``N``, ``MP``, ``MB`` and their answers are the document's. ``Graft`` is its hardened second pass. Those
that mend what links and nodes that come and go have broken are of ``repair``. The last ones are sent only where a
setting asks for them: those of ``attract`` and of ``elect``.

A subscription is known by an opaque id and an epoch: every time its root builds the tree anew the epoch grows, and what
speaks of an older epoch is out of date. The sender of a message is the neighbour on the link, never its origin.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from recado.filters.cost import check_filter
from recado.model.limits import LIMITS
from recado.model.subscription import check_id
from recado.protocols.wire import WireError, WireEvent, read_filter


class Message(msgspec.Struct, frozen=True, gc=False, tag_field="kind", tag=True, array_like=True):
    """Base of all messages."""


class Interest(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A subscription as relays know it; nothing tells whose it is. ``filter`` is an expression, beside the type."""

    id: str
    epoch: int
    type: str
    filter: str


Version = tuple[str, int]
"""A subscription's id and epoch."""


# -- CAI: create a subscription


class Q(Message, frozen=True, tag="Q"):
    """Do you publish this type, or do you lead to someone who does?"""

    interest: Interest


class QYes(Message, frozen=True, tag="Q_YES"):
    id: str
    epoch: int


class QNo(Message, frozen=True, tag="Q_NO"):
    id: str
    epoch: int


class Join(Message, frozen=True, tag="JOIN"):
    """Let this subscription hear what ``along`` hears; pass it on toward the root of that."""

    interest: Interest
    along: str


# -- CI: cancel it


class C(Message, frozen=True, tag="C"):
    """Forget the subscription. ``lost``: it was not cancelled, its path is broken, and it may be found again."""

    id: str
    epoch: int
    lost: bool = False


# -- NE: notify

Stamp = tuple[int, str, int]
"""A publisher's token, an event type, and the number of the event among the publisher's events of that type."""


class N(Message, frozen=True, tag="N"):
    """An event on its way. ``token`` and ``number`` identify it; ``after`` is what it may depend on.

    ``ids`` are the subscriptions that it serves on this link; empty means whoever matches.
    """

    token: int
    number: int
    event: WireEvent
    ids: tuple[str, ...] = ()
    after: tuple[Stamp, ...] = ()


# -- MPP: become a publisher; MPB: become a broker


class MP(Message, frozen=True, tag="MP"):
    """I publish this type now: who subscribes to it?"""

    op: int
    type: str


class MPYes(Message, frozen=True, tag="MP_YES"):
    op: int
    found: tuple[Interest, ...]


class MPNo(Message, frozen=True, tag="MP_NO"):
    op: int


class Graft(Message, frozen=True, tag="GRAFT"):
    """Take me into this subscription's tree, over the branch that you named in search ``op``."""

    op: int
    interest: Interest


class MB(Message, frozen=True, tag="MB"):
    """No publisher is left behind this link for these subscriptions."""

    type: str
    gone: tuple[Version, ...]


# -- repair


class Repair(Message, frozen=True, tag="REPAIR"):
    """The tree is damaged; pass it on to the root. With ``op``, by the branches of that search, not by the tree."""

    id: str
    epoch: int
    op: int = 0


class Redo(Message, frozen=True, tag="REDO"):
    """The search was disturbed; pass it on to the publisher that began it."""

    op: int


class Hello(Message, frozen=True, tag="HELLO"):
    """The first message on a new link: the sender's component, and whether it came alone."""

    component: int
    alone: bool


class Cut(Message, frozen=True, tag="CUT"):
    """A link is gone; whoever hears of it is on the sender's side of the cut."""

    token: int


class Merge(Message, frozen=True, tag="MERGE"):
    """Two components have become one: nodes that hear this look again for what may be on the other side.

    Nodes of component ``old`` change its name by ``delta``. Or a ``cut`` was heard too late to be sure of a link.
    """

    cut: int
    old: int
    delta: int


# -- attraction: links to those who share an interest

Name = int | str
"""A node, as messages can carry it."""


class Seek(Message, frozen=True, tag="SEEK"):
    """A subscriber looks for a place near its publishers; along its tree, then among those attached to a publisher.

    This is the one message that tells who subscribes. ``path`` is the way that it came, for the offer to go back, and
    ``levels`` is how long that was when it reached a publisher: 0 until then.
    """

    op: int
    interest: Interest
    address: str
    path: tuple[Name, ...]
    levels: int = 0


class Offer(Message, frozen=True, tag="OFFER"):
    """There is room for the seeker at ``node``, which saves it ``gain`` hops; ``path`` is the rest of the way back."""

    op: int
    node: Name
    address: str
    gain: int
    path: tuple[Name, ...]


class Attach(Message, frozen=True, tag="ATTACH"):
    """This link was made for the sake of this interest."""

    type: str
    filter: str


# -- election: a candidate takes the place of a publisher


class Call(Message, frozen=True, tag="CALL"):
    """Does anybody publish this type, want it, or stand by for it?"""

    op: int
    type: str


class Answer(Message, frozen=True, tag="ANSWER"):
    """What is known behind this link: does anybody publish, does anybody want it, and the best candidate.

    ``force`` is the number of trees that the candidate is on, -1 if there is none; ``hops`` how far away it is, and
    ``type`` what it stands by for. Not ``sure``: a link was lost meanwhile.
    """

    op: int
    published: bool
    wanted: bool
    sure: bool
    force: int = -1
    hops: int = 0
    type: str = ""


class Appoint(Message, frozen=True, tag="APPOINT"):
    """Publish the type from now on; passed on along the branches of call ``op``."""

    op: int
    type: str


class StandIn(Message, frozen=True, tag="STAND_IN"):
    """The search (MP) of an elected publisher. Of two for one type, the one of higher ``rank`` stays."""

    op: int
    type: str
    rank: int


MESSAGES = (
    Q | QYes | QNo | Join | C | N | MP | MPYes | MPNo | Graft | MB | Repair | Redo | Hello | Cut | Merge
    | Seek | Offer | Attach | Call | Answer | Appoint | StandIn
)  # fmt: skip
"""The union that ``recado.protocols.wire.decoder`` takes."""


# --- What comes from another node is checked where it enters this one ------------------------------------------------
#
# The form is checked by the decoder and events by the model's limits; ids, types and filters are checked here. A node
# may then rely on what it is given; otherwise one peer's broken filter would be met by every later event.


ADDRESS_CHARS = 300
MAX_PATH = 64
"""A seeker that is farther away than this from its publishers stays where it is."""


def check_message(message: Any) -> None:
    """Raise a RecadoError for a message of the right form that carries a subscription nobody could have made."""
    match message:
        case Q(interest) | Graft(_, interest) | Join(interest):
            _check_interest(interest)
        case Seek(_, interest, address, path):
            _check_interest(interest)
            _check_place(address, path)
        case Offer(_, node, address, _, path):
            _check_place(address, (node, *path))
        case Attach(type, filter):
            _check_interest(Interest("attached", 0, type, filter))
        case MPYes(_, found):
            for interest in found:
                _check_interest(interest)


def _check_interest(interest: Interest) -> None:
    check_id(interest.id)
    if len(interest.type) > LIMITS.pattern_chars:
        raise WireError(f"a type has {len(interest.type):,} characters; the limit is {LIMITS.pattern_chars:,}")
    _check_filter(interest.filter)


def _check_place(address: str, path: tuple[Name, ...]) -> None:
    if len(address) > ADDRESS_CHARS or len(path) > MAX_PATH + 1:
        raise WireError(f"an address of {len(address):,} characters, or a way over {len(path):,} nodes, is too long")
    for node in path:
        if isinstance(node, str):
            check_id(node)


@lru_cache(maxsize=4_096)
def _check_filter(text: str) -> None:
    check_filter(read_filter(text))
