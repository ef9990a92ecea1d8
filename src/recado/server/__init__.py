"""The event service: sessions, mailboxes and a durable log behind HTTP, WebSocket, webhooks and SIP/RUDP."""

from __future__ import annotations
