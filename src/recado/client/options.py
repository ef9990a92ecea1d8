"""How a session is set up, and the transport that fits its target."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable

import msgspec

from recado.client.driver import StateFile, Transport
from recado.client.urls import Target
from recado.protocols.session.commands import AgentSettings, Existing, OnCancelled
from recado.protocols.session.messages import Gap


class Options(msgspec.Struct, kw_only=True):
    """What ``recado.connect`` was told, with the target found and the device named; it says what each means."""

    target: Target
    device: str
    random_device: bool = False
    state: StateFile | None = None
    existing: Existing = "recover"
    on_cancelled: OnCancelled = "resubscribe"
    outbox: int = 10_000
    in_flight: int = 1_024
    window: int = 1_024
    timeout: float | None = 30.0
    first_wait: float = 0.2
    longest_wait: float = 30.0
    keepalive: float = 30.0
    on_state: Callable[[str, str], None] | None = None
    on_gap: Callable[[Gap], None] | None = None
    on_cancel: Callable[[str, str, str], None] | None = None
    tls: ssl.SSLContext | None = None

    def agent_settings(self, greets: bool) -> AgentSettings:
        """What the agent is told. Its requests are numbered by the clock, so that no earlier run's number returns."""
        return AgentSettings(
            device=self.device,
            existing=self.existing,
            on_cancelled=self.on_cancelled,
            outbox=self.outbox,
            greets=greets,
            window=self.window,
            first_wait_seconds=self.first_wait,
            longest_wait_seconds=self.longest_wait,
            silence_seconds=self.keepalive,
            first_request=int(time.time() * 1_000_000),
        )


def make_transport(options: Options) -> Transport:
    """Imported late: an application needs one of them."""
    if options.target.sip is not None:
        from recado.client.transports.sip import SipTransport  # noqa: PLC0415

        return SipTransport(options.target, options.device)
    from recado.client.transports.websocket import WebSocketTransport  # noqa: PLC0415

    return WebSocketTransport(options.target, options.tls)
