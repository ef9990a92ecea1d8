"""What can be chosen about the sensor network: every parameter of its specification, with the specification's defaults.

PAMPA and AODV have two named sets of parameters each (4.4 and 6.3). A setting of theirs that is None has the value of
the profile that was chosen; any other value replaces it. ``pampa_parameters`` and ``aodv_parameters`` give the result.
Names of the specification are in the comments where they differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

from recado.errors import RecadoError

TRANSMIT_SECONDS = 0.003
"""T_TX: what one transmission may take, in the check of ``hop_seconds``."""


class SettingsError(RecadoError):
    """A setting that makes no sense."""


class PampaParameters(msgspec.Struct, frozen=True):
    """4.4. A node that has heard ``n_copies`` of a message does not relay it."""

    n_copies: int
    hold_mode: Literal["linear", "db"]
    hold_factor: float = 3e6  # K, in seconds a watt
    hold_seconds: float = 0.1  # D_MAX
    edge_dbm: float = -64.37  # RSSI_EDGE
    span_db: float = 40.0
    jitter_seconds: float = 0.002


PAMPA_PROFILES: Mapping[str, PampaParameters] = {
    "prototype": PampaParameters(n_copies=3, hold_mode="linear"),
    "sparse": PampaParameters(n_copies=2, hold_mode="db"),
}


class AodvParameters(msgspec.Struct, frozen=True):
    """6.3. What the two profiles do differently, beside numbers, is in the last fields."""

    active_route_seconds: float
    my_route_seconds: float
    reverse_route_seconds: float
    seen_seconds: float  # BCAST_ID_SAVE
    delete_seconds: float
    ttl_start: int
    ttl_increment: int
    ttl_threshold: int
    diameter: int
    traversal_seconds: float
    rreq_retries: int
    rreq_wait_most_seconds: float
    relay_jitter_seconds: float
    repair_wait_seconds: float
    hello_seconds: float
    hello_losses: int
    rreq_per_second: int
    """0: as many as there are."""
    rerr_per_second: int
    # -- not settings: what makes the profile
    first_last_hops: int
    """How far a destination that was never known is taken to have been: 255 makes the first request network-wide."""
    first_hop_count: int
    seq_step: int
    rfc: bool
    """The rules of RFC 3561 in place of those of ns-2."""
    retry_slack_seconds: float
    """ns-2 repeats requests from a timer that looks twice a second."""


AODV_PROFILES: Mapping[str, AodvParameters] = {
    "ns2": AodvParameters(
        active_route_seconds=10.0,
        my_route_seconds=10.0,
        reverse_route_seconds=6.0,
        seen_seconds=6.0,
        delete_seconds=math.inf,
        ttl_start=5,
        ttl_increment=2,
        ttl_threshold=7,
        diameter=30,
        traversal_seconds=0.03,
        rreq_retries=3,
        rreq_wait_most_seconds=10.0,
        relay_jitter_seconds=0.01,
        repair_wait_seconds=0.15,
        hello_seconds=0.0,
        hello_losses=3,
        rreq_per_second=0,
        rerr_per_second=0,
        first_last_hops=255,
        first_hop_count=1,
        seq_step=2,
        rfc=False,
        retry_slack_seconds=0.5,
    ),
    "rfc3561": AodvParameters(
        active_route_seconds=3.0,
        my_route_seconds=6.0,
        reverse_route_seconds=5.6,
        seen_seconds=5.6,
        delete_seconds=15.0,
        ttl_start=1,
        ttl_increment=2,
        ttl_threshold=7,
        diameter=35,
        traversal_seconds=0.04,
        rreq_retries=2,
        rreq_wait_most_seconds=math.inf,
        relay_jitter_seconds=0.01,
        repair_wait_seconds=2.8,
        hello_seconds=1.0,
        hello_losses=2,
        rreq_per_second=10,
        rerr_per_second=10,
        first_last_hops=0,
        first_hop_count=0,
        seq_step=1,
        rfc=True,
        retry_slack_seconds=0.0,
    ),
}


class SensorSettings(msgspec.Struct, frozen=True):
    """The settings of one node; those in ``COMMON`` have to be the same in the whole network."""

    system: Literal["proposed", "publication-flooding", "subscription-flooding", "blind-flooding"] = "proposed"
    """The system of the paper, or one of its baselines (8): B1, B2, B3."""

    # -- PAMPA (4)
    pampa: Literal["prototype", "sparse"] = "prototype"
    n_copies: int | None = None
    hold_mode: Literal["linear", "db"] | None = None
    hold_factor: float | None = None
    hold_seconds: float | None = None
    edge_dbm: float | None = None
    span_db: float | None = None
    jitter_seconds: float | None = None

    # -- PCACHE (5)
    dbc: int = 2
    """A node stores if it knows of no copy within so many hops."""
    q_ttl: int | None = None
    """Hops of a collection query; None: ``dbc``."""
    hop_seconds: float = 0.15
    """T_HOP: what a relay waits for its children, for each hop below it."""
    reply_jitter_seconds: float = 0.02
    collect_seconds: float | None = None
    """T_COLLECT; None: ``hop_seconds * (q_ttl + 1)``."""
    capacity: int = 0
    """Items that the node keeps, its own included; 0: no limit."""
    capacity_bytes: int = 0
    evict: Literal["random", "oldest", "none"] = "random"
    """Which item of others makes room; never one's own."""
    lookup_hops: int = 4
    """Q_MAX: the last ring of a lookup by key."""
    lease_seconds: float = 0.0
    """How long a copy is valid; 0: for ever."""

    # -- AODV (6)
    aodv: Literal["ns2", "rfc3561"] = "ns2"
    route_expiry: bool = False
    """Off as in the paper: no route is ever too old."""
    rreq_retry: Literal["auto", "on", "off"] = "auto"
    """Are unanswered route requests repeated? ``auto``: on with ``rfc3561`` or with ``route_expiry``."""
    destination_only: bool = False
    """The D flag of ``rfc3561``: only the destination answers."""
    active_route_seconds: float | None = None
    my_route_seconds: float | None = None
    reverse_route_seconds: float | None = None
    seen_seconds: float | None = None
    delete_seconds: float | None = None
    ttl_start: int | None = None
    ttl_increment: int | None = None
    ttl_threshold: int | None = None
    diameter: int | None = None
    traversal_seconds: float | None = None
    rreq_retries: int | None = None
    rreq_wait_most_seconds: float | None = None
    relay_jitter_seconds: float | None = None
    repair_wait_seconds: float | None = None
    hello_seconds: float | None = None
    """0: links are watched by what is not acknowledged. Hellos are sent only if routes expire, by who has some."""
    hello_losses: int | None = None
    rreq_per_second: int | None = None
    rerr_per_second: int | None = None

    # -- delivery (7)
    grouping: bool = True
    group_hops: int = 30
    pace_seconds: float = 1.0
    pace_mode: Literal["all", "rreq", "adaptive"] = "all"
    """Which copies wait for a slot: every one, or those that ask for a route. ``adaptive``: see below."""

    # -- beyond the paper: all of it off
    repair: Literal["none", "source", "local"] = "none"
    """What becomes of a packet that its next hop did not take: lost; or its source looks for a new route; or also a
    relay does, if it is nearer to the destination."""
    refresh_seconds: float = 0.0
    """A subscriber stores its subscriptions anew so often; 0: never. With a lease, sooner than that."""
    shuffle: bool = False
    """5.7: relays of answers exchange some of their copies."""
    p_shuffle: float = 0.1
    covering: bool = False
    """What another subscription of the same subscriber covers is neither announced nor kept twice."""
    pace_least_seconds: float = 0.02
    """``adaptive``: a discovery follows the answer to the one before, after so long; at the latest after a slot."""

    # -- limits
    remembered: int = 4_096
    """Broadcasts, notifications and groups that are remembered, to know them again."""
    max_seen: int = 4_096
    """Route requests that are remembered."""
    buffer_packets: int = 64
    buffer_seconds: float = 30.0
    max_routes: int = 8_192
    max_gathers: int = 1_024
    """Queries that are going on."""
    max_items: int = 1_024
    """Items of one query."""
    max_stored: int = 8_192
    """Items that a node keeps, whatever ``capacity`` says; beyond that it stores nothing of others."""
    max_stored_bytes: int = 16_777_216
    max_subscriptions: int = 1_000
    max_handovers: int = 1_024
    """Copies that wait for a slot."""
    sender_per_second: float = 100.0
    """What is new from one neighbour, in the long run; 0: no limit."""
    sender_burst: int = 500

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise SettingsError(f"{name} is {value}; it has to be more than 0")
        for name in _NOT_NEGATIVE:
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise SettingsError(f"{name} is {value}; it cannot be less than 0")
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise SettingsError(f"{name} is {value!r}; it is one of {', '.join(choices)}")
        for name in ("q_ttl", "lookup_hops", "ttl_start", "diameter", "group_hops"):
            if (getattr(self, name) or 0) > 255:
                raise SettingsError(f"{name} is {getattr(self, name)}; no way is longer than 255 hops")
        if self.p_shuffle > 1:
            raise SettingsError(f"p_shuffle is {self.p_shuffle}; a probability is at most 1")
        if self.lease_seconds and self.refresh_seconds >= self.lease_seconds:
            raise SettingsError(
                "refresh_seconds has to be less than lease_seconds, or copies end before they are renewed"
            )
        pampa = self.pampa_parameters()
        least = pampa.hold_seconds + pampa.jitter_seconds + self.reply_jitter_seconds + 2 * TRANSMIT_SECONDS
        if self.hop_seconds <= least:
            raise SettingsError(f"hop_seconds is {self.hop_seconds}; a hop of a query takes up to {least:g} s")

    def pampa_parameters(self) -> PampaParameters:
        return _replace(PAMPA_PROFILES[self.pampa], self)

    def aodv_parameters(self) -> AodvParameters:
        return _replace(AODV_PROFILES[self.aodv], self)

    @property
    def query_hops(self) -> int:
        return self.dbc if self.q_ttl is None else self.q_ttl

    @property
    def wait_seconds(self) -> float:
        """T_COLLECT."""
        usual = self.hop_seconds * (self.query_hops + 1)
        return usual if self.collect_seconds is None else self.collect_seconds

    @property
    def repeats_requests(self) -> bool:
        if self.rreq_retry != "auto":
            return self.rreq_retry == "on"
        return self.route_expiry or self.aodv == "rfc3561"


P = TypeVar("P", PampaParameters, AodvParameters)


def _replace(profile: P, settings: SensorSettings) -> P:
    names = [name for name in profile.__struct_fields__ if getattr(settings, name, None) is not None]
    return msgspec.structs.replace(profile, **{name: getattr(settings, name) for name in names})


COMMON = ("system", "pampa", "dbc", "q_ttl", "aodv", "lease_seconds")

_POSITIVE = (
    "n_copies", "hold_factor", "span_db", "dbc", "q_ttl", "hop_seconds", "collect_seconds", "lookup_hops",
    "seen_seconds",
    "ttl_start", "ttl_increment", "ttl_threshold", "diameter", "traversal_seconds", "rreq_wait_most_seconds",
    "active_route_seconds", "my_route_seconds", "reverse_route_seconds", "hello_losses", "group_hops", "remembered",
    "max_seen", "buffer_packets", "buffer_seconds", "max_routes", "max_gathers", "max_items", "max_stored",
    "max_stored_bytes", "max_subscriptions", "max_handovers", "sender_burst",
)  # fmt: skip
_NOT_NEGATIVE = (
    "hold_seconds", "jitter_seconds", "reply_jitter_seconds", "capacity", "capacity_bytes", "lease_seconds",
    "delete_seconds", "rreq_retries", "relay_jitter_seconds", "repair_wait_seconds", "hello_seconds", "rreq_per_second",
    "rerr_per_second", "pace_seconds", "refresh_seconds", "p_shuffle", "pace_least_seconds", "sender_per_second",
)  # fmt: skip
_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "system": ("proposed", "publication-flooding", "subscription-flooding", "blind-flooding"),
    "pampa": ("prototype", "sparse"),
    "hold_mode": ("linear", "db"),
    "evict": ("random", "oldest", "none"),
    "aodv": ("ns2", "rfc3561"),
    "rreq_retry": ("auto", "on", "off"),
    "pace_mode": ("all", "rreq", "adaptive"),
    "repair": ("none", "source", "local"),
}
