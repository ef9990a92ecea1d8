"""Delivery: when a matching event becomes a notification, for whom it waits, and to whom it goes. Pure; instants are
arguments.
"""

from __future__ import annotations
