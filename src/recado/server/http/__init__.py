"""The service over HTTP: publish, subscriptions, sessions, mailboxes, replay and operations."""

from __future__ import annotations
