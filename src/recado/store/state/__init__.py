"""What a service must remember beside the event log: subscriptions, devices, mailboxes, notices.

One SQLite database. ``StateStore`` opens, loads and writes it; ``Batch`` is one transaction's worth of changes.
"""

from recado.store.state.rows import (
    POSITION_BITS,
    Batch,
    BoxRow,
    DeviceRow,
    Loaded,
    MailRow,
    NoticeRow,
    StateError,
    SubscriptionRow,
)
from recado.store.state.store import STATE_FILE, StateStore, copy_state

__all__ = [
    "POSITION_BITS",
    "STATE_FILE",
    "Batch",
    "BoxRow",
    "DeviceRow",
    "Loaded",
    "MailRow",
    "NoticeRow",
    "StateError",
    "StateStore",
    "SubscriptionRow",
    "copy_state",
]
