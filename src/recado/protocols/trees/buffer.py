"""The notification buffer (section 2.7 of the tree document): late subscribers get what was published before them.

A publisher keeps its latest events for a time. When a subscription's tree reaches it, the events that match are sent
along that tree alone, right behind the answer that built it. A tree that is rebuilt brings the same again, which the
subscriber recognises; so the buffer also fills the gap that a failure has torn. Off unless ``buffer`` is set.
"""

from __future__ import annotations

from recado.filters.evaluate import matches
from recado.protocols.machine import Send
from recado.protocols.trees.messages import Interest, N
from recado.protocols.trees.state import Out, State
from recado.protocols.trees.table import speaks_of
from recado.protocols.wire import read_filter


def keep(state: State, message: N) -> None:
    _expire(state)
    state.buffer.append((state.now, message))


def _expire(state: State) -> None:
    oldest = state.now - state.settings.buffer_seconds
    while state.buffer and state.buffer[0][0] < oldest:
        state.buffer.popleft()


def replay(state: State, interest: Interest, out: Out) -> None:
    """A subscription has come within reach: send it what it missed."""
    row = state.tables.rows.get(interest.id)
    if row is None or row.epoch != interest.epoch:
        return
    _expire(state)
    for _, message in state.buffer:
        event = message.event
        if speaks_of(interest.type, event.type) and matches(read_filter(interest.filter), event):
            copy = N(message.token, message.number, event, (interest.id,), message.after)
            for node in row.next:
                if node != state.me:
                    out.append(Send(node, copy, "a late subscriber gets what is in the buffer"))
