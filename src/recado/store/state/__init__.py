"""What a service must remember beside the event log: subscriptions, devices, mailboxes, notices.

One SQLite database. ``SqliteStateStore`` opens, loads and writes it; ``recado.broker.persistence`` says what is kept.
"""

from recado.store.state.rows import StateError
from recado.store.state.store import STATE_FILE, SqliteStateStore, copy_state

__all__ = ["STATE_FILE", "SqliteStateStore", "StateError", "copy_state"]
