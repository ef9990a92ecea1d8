"""What can be chosen about the super-node protocol: the parameters of the document's 2.1 and the switches of its 7.3.

Names follow the document; a unit is part of a name where a number would hide it. Defaults are the document's, and where
it leaves a choice open (R1 to R52) the one its specification recommends. ``PROFILES`` has the other set of parameters
that is known of the system the document extends (R49).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from recado.errors import RecadoError


class SettingsError(RecadoError):
    """A setting that makes no sense."""


class SuperNodeSettings(msgspec.Struct, frozen=True):
    """The settings of one node; those in ``COMMON`` have to be the same in the whole overlay."""

    # -- which parts of the protocol are used
    families: bool = True
    """Off: every node is a member of the layer, whatever its filter. That is the base system, BL0."""
    event_repair: bool = True
    k: int = 1
    """Super nodes a filter, the active one included; 1 switches the stand-by nodes off."""
    budget_bytes_per_second: float = 0.0
    """Upload that the sizer may spend on more super nodes; 0 switches it off."""
    budget_mode: Literal["increment", "limit"] = "increment"
    """R6: the budget comes on top of what is used, or is a limit for all upload of a sequencer."""

    # -- sizes that are accounted, in bytes (2.2)
    endpoint_bytes: int = 6
    filter_bytes: int = 506
    filter_hash_bytes: int = 16
    event_id_bytes: int = 10
    event_bytes: int = 16
    slot_count_bytes: int = 4
    type_bytes: int = 0
    """R2: the tag of a message's type."""
    header_bytes: int = 28
    interval_bytes: int = 16
    """The two identifiers of an interval; the document does not give it."""
    filter_ref: Literal["hash", "full"] = "hash"
    """R19: how a record names a filter that is already represented."""
    promoted_ref: Literal["hash", "full"] = "full"
    """R19: how the record of a sub node that was promoted after a failure names it."""

    # -- the layer (2.4)
    slices: int = 1
    join_batch: int = 30
    join_batch_seconds: float = 30.0
    leave_batch: int = 10
    leave_batch_seconds: float = 30.0
    """0: only the number counts (R3, R20)."""
    leaves: Literal["detector", "leader"] = "detector"
    """Who spreads a departure: the node that detected it, or the leader of the slice, beside its joins."""
    max_fanout: int = 6
    event_fanout: int = 5
    min_fanout: int = 2
    repair_seconds: float = 30.0
    repair_least_seconds: float = 10.0
    repair_most_seconds: float = 45.0
    reunite_share: float = 0.0
    """Beyond the document: so many of the repair rounds ask a member that was taken for gone. After a partition that
    brings the parts together again; without it each stays by itself."""
    join_retry_seconds: float = 60.0
    join_retry_growth: float = 1.5
    """Up to five times the first wait."""
    download_start_seconds: float = 10.0
    """A newcomer starts to download at a random moment within so many seconds (4.8(3))."""
    filter_pieces: int = 5
    """Filters come in so many pieces after the endpoints; 0: with the endpoints."""
    filter_seconds: float = 600.0
    """The time over which the pieces are spread."""
    serving: Literal["ratio", "always"] = "ratio"
    """Who serves downloads: those with a poor ratio of upload to download more often, or everybody."""
    k_nodes_relay: bool = True
    """R44: K nodes relay trees themselves; or they hand it to their father."""

    # -- families (2.5 to 2.8)
    keepalive_seconds: float = 45.0
    watchdog_grace_seconds: float = 11.0
    eta_step_seconds: float = 1.0
    watchdog: Literal["receipt", "period"] = "receipt"
    """R5: the deadline is counted from the last keep-alive, or moves by whole periods."""
    promotion_policy: Literal["fifo", "lifo"] = "fifo"
    brothers: Literal["chain", "enquiry"] = "chain"
    """How children know each other: from the list in the keep-alive, or by asking (ablation A1). The second goes with
    the document's protocol alone, not with ``family_most``, ``covering``, ``graceful`` or ``guard``."""
    brothers_share: float = 0.1
    brothers_least: int = 2
    """R51: of how many of his children a father tells a newcomer that has to ask."""
    failed_join: Literal["restart", "enter"] = "restart"
    """R8: what a joiner does whose representative does not answer."""
    join_restarts: int = 3
    redirects: int = 3
    redirect_wait_seconds: float = 15.0
    redirect_patience_seconds: float = 90.0
    recheck_on_promotion: bool = False
    """R29: before it promotes itself, a child asks whether there is another super node of its filter."""
    seeds: int = 3
    """R47: super nodes that an accepted child is told of, and with every keep-alive; not accounted."""

    # -- the sizer (2.10)
    sizer_seconds: float = 300.0

    # -- events (2.11 to 2.13)
    retry_on_failed_send: bool = False
    """R20: when a member of the event tree cannot be reached, try the next one that accepts."""
    k_via_tree: bool = False
    """R14: the father leaves K nodes out of the chain."""
    event_repair_seconds: float = 30.0
    history: int = 10
    """Identifiers of events that are exchanged in a repair."""
    keep_seconds: float = 600.0
    """R34: how long bodies of events are kept, beside the last ``2 * history``."""

    # -- beyond the document: all of it off, so that the plain protocol is the document's
    graceful: bool = False
    """A node that leaves or changes its filter hands its family over at once, and keeps its place meanwhile."""
    linger_seconds: float = 60.0
    """How long it waits at most for its heir to be a member."""
    ordered: bool = False
    """Events of one publisher are delivered in order; what is missing is asked for, and reported if it is lost."""
    order_seconds: float = 2.0
    """How long an event waits for those before it until they are asked for, and between two questions."""
    order_tries: int = 5
    stamp_bytes: int = 6
    """A short name of a filter and the distance to its previous event."""
    family_most: int = 0
    """Children that a node takes; more hang below those, so that a family is a tree. 0: a family is one list."""
    covering: bool = False
    """A peer whose filter nobody has may hang below a super node whose filter covers it. Not with ``ordered``."""
    fair: bool = False
    """A super node lets its children send what it has to pass on in trees, so that all of a family pay alike."""
    max_upload_bytes_per_second: float = 0.0
    """A node that has sent so much in the layer lets its children send the rest, and has super nodes become children
    that are not needed; 0: no limit."""
    upload_seconds: float = 60.0
    """Over which time that is measured."""
    guard: bool = False
    """Messages that nobody asked for, that a sender cannot know, or that come too fast are dropped."""
    peer_messages_per_second: float = 20.0
    peer_burst: int = 400
    """What one peer may send: so much at once, and so much in the long run."""

    # -- limits
    start_after_seconds: float = 0.0
    """How long a node that starts waits for its application's subscriptions before it joins."""
    max_subscriptions: int = 1_000
    max_children: int = 10_000
    max_pending: int = 10_000
    """Joins and departures that wait to be spread."""
    max_neighbours: int = 64
    max_events: int = 4_096
    """Bodies of events at one node."""
    max_outbox: int = 64
    """Publications that wait until the node has a way to publish them."""
    max_log: int = 4_096
    """Membership events that are kept to repair others."""

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it has to be more than 0")
        for name in _NOT_NEGATIVE:
            if not getattr(self, name) >= 0:
                raise SettingsError(f"{name} is {getattr(self, name)}; it cannot be less than 0")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise SettingsError(f"{name} is {getattr(self, name)!r}; it is one of {', '.join(choices)}")
        if self.covering and self.ordered:
            raise SettingsError("covering and ordered do not go together: a covered filter has no stamps")
        if self.brothers == "enquiry" and (self.family_most or self.covering or self.graceful or self.guard):
            raise SettingsError("brothers by enquiry do not go with family_most, covering, graceful or guard")
        if self.brothers_share > 1:
            raise SettingsError(f"brothers_share is {self.brothers_share}; a share is at most 1")
        if not 2 <= self.min_fanout <= min(self.max_fanout, self.event_fanout):
            raise SettingsError("fanouts are at least 2, and min_fanout is the least of them")
        if self.reunite_share > 1:
            raise SettingsError(f"reunite_share is {self.reunite_share}; a share is at most 1")
        if not self.repair_least_seconds <= self.repair_seconds <= self.repair_most_seconds:
            raise SettingsError("repair_seconds has to be between repair_least_seconds and repair_most_seconds")


COMMON = ("families", "k", "slices", "keepalive_seconds", "leaves", "ordered", "family_most", "covering", "brothers")

_POSITIVE = (
    "k", "slices", "join_batch", "join_batch_seconds", "leave_batch", "repair_seconds", "repair_least_seconds",
    "join_retry_seconds", "keepalive_seconds", "sizer_seconds", "event_repair_seconds", "history", "max_subscriptions",
    "max_children", "max_pending", "max_neighbours", "max_events", "max_outbox", "max_log", "seeds",
    "upload_seconds", "peer_messages_per_second", "peer_burst", "brothers_least",
)  # fmt: skip
_NOT_NEGATIVE = (
    "budget_bytes_per_second", "endpoint_bytes", "filter_bytes", "filter_hash_bytes", "event_id_bytes", "event_bytes",
    "slot_count_bytes", "type_bytes", "header_bytes", "interval_bytes", "leave_batch_seconds", "join_retry_growth",
    "download_start_seconds", "filter_pieces", "filter_seconds", "watchdog_grace_seconds", "eta_step_seconds",
    "join_restarts", "redirects", "redirect_wait_seconds", "redirect_patience_seconds", "keep_seconds",
    "start_after_seconds", "reunite_share",
    "start_after_seconds", "linger_seconds", "order_seconds", "order_tries", "stamp_bytes",
    "family_most", "max_upload_bytes_per_second", "brothers_share",
)  # fmt: skip
_CHOICES = {
    "budget_mode": ("increment", "limit"),
    "filter_ref": ("hash", "full"),
    "promoted_ref": ("hash", "full"),
    "leaves": ("detector", "leader"),
    "serving": ("ratio", "always"),
    "watchdog": ("receipt", "period"),
    "promotion_policy": ("fifo", "lifo"),
    "brothers": ("chain", "enquiry"),
    "failed_join": ("restart", "enter"),
}

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "experiment": {},
    "package": {
        "max_fanout": 4,
        "event_fanout": 3,
        "join_batch_seconds": 15.0,
        "repair_seconds": 15.0,
        "join_retry_seconds": 45.0,
        "filter_pieces": 10,
    },
}
"""R49: the two sets of parameters of the base system, as options for ``OverlayProtocol.configure``."""
