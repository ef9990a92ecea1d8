"""Causal order, the future work of sections 4.1.3 and 7.2.2 of the tree document. Off unless ``causal`` is set.

Every event of a publisher has a number among its events of that type. A notification carries the latest numbers that
its publisher knew of, from what it published, delivered, or was told with that: what the event may depend on. A
subscriber holds it back while one of those is of a type that it subscribes to, and has not come. Filters let events
through that depend on others which they do not, and the subscriber cannot know; so nothing waits longer than
``causal_wait_seconds``.
"""

from __future__ import annotations

from recado.protocols.machine import Deliver, SetTimer
from recado.protocols.pubsub import Notified
from recado.protocols.trees.messages import N, Stamp
from recado.protocols.trees.state import Held, Out, State
from recado.protocols.trees.table import speaks_of


def dependencies(state: State, type: str) -> tuple[Stamp, ...]:
    """The latest event of every publisher and type that this node knows; then its own new one."""
    after = tuple((token, kind, number) for (token, kind), number in state.after.items())
    _known(state, state.token, type, state.numbers[type])
    return after


def deliver(state: State, message: N, ids: tuple[str, ...], out: Out) -> None:
    """Hand the event to the application as soon as it is its turn."""
    held = Held(message, ids)
    if _missing(state, message):
        key = state.tick()
        state.waiting[key] = held
        out.append(SetTimer(("causal", key), state.settings.causal_wait_seconds))
        return
    _hand_over(state, held, out)
    _release(state, out)


def give_up(state: State, key: int, out: Out) -> None:
    """What it waited for did not come in time."""
    held = state.waiting.pop(key, None)
    if held is not None:
        _hand_over(state, held, out)
        _release(state, out)


def _release(state: State, out: Out) -> None:
    """Deliver what has waited for nothing but what came just now."""
    ready = True
    while ready:
        ready = False
        for key, held in list(state.waiting.items()):
            if not _missing(state, held.message):
                del state.waiting[key]
                _hand_over(state, held, out)
                ready = True


def _missing(state: State, message: N) -> bool:
    return any(
        number > state.after.get((token, type), 0) and any(speaks_of(own.type, type) for own in state.own.values())
        for token, type, number in message.after
    )


def _hand_over(state: State, held: Held, out: Out) -> None:
    message = held.message
    for token, type, number in message.after:  # what this node publishes next may depend on these too
        _known(state, token, type, number)
    _known(state, message.token, message.event.type, message.number)
    ids = tuple(id for id in held.ids if id in state.own)
    if ids:
        state.delivered += 1
        out.append(Deliver(Notified(message.event, ids)))


def _known(state: State, token: int, type: str, number: int) -> None:
    """Remember the latest; the publisher that was silent for longest is forgotten first."""
    latest = max(number, state.after.pop((token, type), 0))
    if len(state.after) >= state.settings.max_kept:
        del state.after[next(iter(state.after))]
    state.after[token, type] = latest
