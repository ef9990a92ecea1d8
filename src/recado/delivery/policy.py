"""Does a subscription's owner want to hear of this matching event, now? (mobility.md 9.5)

A constraint that holds only while the owner is disconnected is skipped while they are connected. Of the active ones,
the frequency must be satisfied **and** at least one of the intervals, if there are any: several intervals complement
each other (15.4-A2). Looking has no side effect; whoever generates the notification remembers its instant as the next
``last_notified``, so the order in which constraints are listed changes what a refusal names, never whether it is one.

All instants are in UTC. ``now`` may lie before ``last_notified`` (an event that comes late): then the time since the
last notification is negative and a frequency refuses.
"""

from __future__ import annotations

from datetime import UTC, datetime

from recado.delivery.constraints import Constraints, Frequency, Interval
from recado.model.values import format_time


def satisfied(
    constraints: Constraints, occurred_at: datetime, now: datetime, last_notified: datetime | None, connected: bool
) -> bool:
    """May an event that occurred at ``occurred_at`` be notified at ``now``?"""
    return not refused_by(constraints, occurred_at, now, last_notified, connected)


def refused_by(
    constraints: Constraints, occurred_at: datetime, now: datetime, last_notified: datetime | None, connected: bool
) -> Constraints:
    """The constraints that stand in the way: the frequency, or all active intervals; nothing if satisfied."""
    _need_utc(occurred_at, now, last_notified)
    missed: list[Interval] = []
    inside = False
    for one in constraints:
        if connected and one.when == "disconnected":
            continue
        if isinstance(one, Frequency):
            if last_notified is not None and now - last_notified < one.period:
                return (one,)
        elif not inside:
            inside = one.contains(occurred_at)
            missed.append(one)
    return () if inside else tuple(missed)


def explain(
    constraints: Constraints, occurred_at: datetime, now: datetime, last_notified: datetime | None, connected: bool
) -> str | None:
    """Why the event is not notified, in a sentence; None if it is."""
    refusing = refused_by(constraints, occurred_at, now, last_notified, connected)
    if not refusing:
        return None
    if last_notified is not None and isinstance(refusing[0], Frequency):
        ago = (now - last_notified).total_seconds()
        since = f"{ago:g} s after" if ago >= 0 else f"{-ago:g} s before"
        return f"{refusing[0]}; this is {since} the last one"
    return f"{format_time(occurred_at)} is not in {', nor in '.join(str(one) for one in refusing)}"


def _need_utc(occurred_at: datetime, now: datetime, last_notified: datetime | None) -> None:
    """Differences of local times are wrong where clocks were changed in between, so there are none here."""
    if occurred_at.tzinfo is not UTC or now.tzinfo is not UTC or (last_notified and last_notified.tzinfo is not UTC):
        raise ValueError(f"instants are in UTC; got {occurred_at!r}, {now!r}, {last_notified!r}")
