"""How a client is set up, and the transport that fits its target."""

from __future__ import annotations

import getpass
import secrets
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from recado.client.driver import StateFile, Transport
from recado.client.urls import Target, resolve
from recado.protocols.session.commands import AgentSettings, Existing, OnCancelled
from recado.protocols.session.messages import Gap


class Options(msgspec.Struct, kw_only=True):
    """``timeout`` bounds the first connection: None waits for ever, 0 gives up after the first attempt."""

    target: Target
    device: str
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

    def agent(self, greets: bool) -> AgentSettings:
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


def make_options(
    url: str | None, *, user: str | None, device: str | None, state: str | Path | None, **more: Any
) -> Options:
    """Options from what an application gives: the target is found, the device named, the state read."""
    target = resolve(url)
    user = user or target.user or ("" if target.token else getpass.getuser())
    target = msgspec.structs.replace(target, user=user)
    kept = StateFile(Path(state)) if state is not None else None
    name = device or target.device or (kept.device if kept else "") or f"d-{secrets.token_hex(8)}"
    if kept is not None:
        kept.device = name
    return Options(target=target, device=name, state=kept, **more)


def make_transport(options: Options) -> Transport:
    """Imported late: an application needs one of them."""
    if options.target.sip is not None:
        from recado.client.transports.sip import SipTransport  # noqa: PLC0415

        return SipTransport(options.target, options.device)
    from recado.client.transports.websocket import WebSocketTransport  # noqa: PLC0415

    return WebSocketTransport(options.target, options.tls)
