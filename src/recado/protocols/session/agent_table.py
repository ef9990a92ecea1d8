"""The subscriptions that an agent looks after: their records, until when they are granted, when to renew them.

A record that was made with ``expires_at`` ends then and is never renewed. Any other is renewed when ``renew_at`` of its
lifetime is over (the mobility document, 8.4). The lifetime is counted from the answer's arrival, with the service's
expiry read on the agent's clock, but never longer than what was asked for, so that a wrong clock costs early renewals
and not subscriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any

from recado.model.times import parse_time

_OWN_MEMBERS = ("id", "filter", "filters", "syntax", "type", "constraints", "semantic", "scope", "webhook")
_SHORTEST_SECONDS = 1.0
SAVED = "subscription:"
"""Each is persisted under a key of its own, so that one more costs the same however many there are."""


class Held:
    """One subscription. ``turn`` tells an outdated renewal from the current one."""

    __slots__ = ("expires_at", "record", "turn")

    def __init__(self, record: dict[str, Any], expires_at: str) -> None:
        self.record = record
        self.expires_at = expires_at
        self.turn = 0

    @property
    def ttl(self) -> float | None:
        ttl = self.record.get("ttl")
        return None if ttl is None else float(ttl)


class Table:
    def __init__(self, renew_at: float) -> None:
        self.held: dict[str, Held] = {}
        self.leaving: dict[str, int] = {}
        self._renew_at = renew_at
        self._due: list[tuple[float, str, int]] = []

    def put(self, record: Mapping[str, Any], expires_at: str, now: float) -> None:
        """A subscription is in place until ``expires_at``; one whose end was asked for meanwhile stays away."""
        sub_id = str(record["id"])
        if sub_id in self.leaving:
            return
        held = self.held.get(sub_id)
        if held is None:
            held = self.held[sub_id] = Held(dict(record), expires_at)
        else:
            held.record, held.expires_at = dict(record), expires_at
        self.extend(sub_id, expires_at, now)

    def extend(self, sub_id: str, expires_at: str, now: float) -> None:
        held = self.held.get(sub_id)
        if held is None:
            return
        held.expires_at = expires_at
        held.turn += 1
        if "expires_at" not in held.record:
            due = now + self._renew_at * lifetime(held, now)
            heappush(self._due, (due, sub_id, held.turn))

    def remove(self, sub_id: str) -> Held | None:
        return self.held.pop(sub_id, None)

    def begin_leaving(self, sub_id: str) -> None:
        """The application cancels it: nothing that is still under way brings it back."""
        self.leaving[sub_id] = self.leaving.get(sub_id, 0) + 1
        self.remove(sub_id)

    def left(self, sub_id: str) -> None:
        count = self.leaving.get(sub_id, 0)
        if count > 1:
            self.leaving[sub_id] = count - 1
        else:
            self.leaving.pop(sub_id, None)

    def due(self, now: float) -> list[str]:
        """Those to renew by now; each is named once until it is extended."""
        found = []
        while self._due and self._due[0][0] <= now:
            _, sub_id, turn = heappop(self._due)
            if self._current(sub_id, turn):
                found.append(sub_id)
        return found

    def next_due(self) -> float | None:
        while self._due and not self._current(self._due[0][1], self._due[0][2]):
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def _current(self, sub_id: str, turn: int) -> bool:
        held = self.held.get(sub_id)
        return held is not None and held.turn == turn

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Subscriptions of an earlier run; when they are due is known when the service has been asked."""
        for key, one in saved.items():
            if key.startswith(SAVED):
                self.held[key.removeprefix(SAVED)] = Held(dict(one["record"]), one["expires_at"])

    def saved(self, sub_id: str) -> dict[str, Any] | None:
        """What to keep of a subscription; None if it is gone."""
        held = self.held.get(sub_id)
        return None if held is None else {"record": held.record, "expires_at": held.expires_at}


def lifetime(held: Held, now: float) -> float:
    """How many seconds it has from now on."""
    try:
        left = parse_time(held.expires_at).timestamp() - now
    except ValueError:
        left = 0.0
    asked = held.ttl
    if left <= 0:
        left = asked or _SHORTEST_SECONDS
    return max(_SHORTEST_SECONDS, left if asked is None else min(left, asked))


def own_record(members: Mapping[str, Any]) -> dict[str, Any]:
    """A record to subscribe with, from what SUBS says of a subscription: without what the service added."""
    return {name: members[name] for name in _OWN_MEMBERS if members.get(name) is not None}
