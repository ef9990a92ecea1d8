"""Every limit of a live node, in one place: what one peer or one program can cost it.

``docs/overlay.md`` has this table, and a test compares them.
"""

from __future__ import annotations

import msgspec


class OverlayLimits(msgspec.Struct, frozen=True):
    # connections
    frame_bytes: int = 2_097_152
    hello_bytes: int = 4_096
    hello_seconds: float = 5.0
    connections: int = 256
    complaints_a_minute: int = 20
    # a link
    queue_bytes: int = 8_388_608
    ping_seconds: float = 5.0
    silence_seconds: float = 15.0
    probe_seconds: float = 2.0
    # dialling
    retry_seconds: float = 0.2
    retry_most_seconds: float = 30.0
    # the applications at this node
    programs: int = 64
    stream_notifications: int = 10_000
    stream_bytes: int = 16_777_216
    publish_wait_seconds: float = 1.0
    # what a node remembers of itself
    story_steps: int = 4_096
    story_bytes: int = 8_388_608
    deliveries: int = 10_000
    # the end
    drain_seconds: float = 5.0


OVERLAY_LIMITS = OverlayLimits()
