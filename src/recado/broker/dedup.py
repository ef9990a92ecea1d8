"""Events that were sent before: a publisher may send again what it does not know to be stored.

An event that its user sent again (the same id and the same content) within the last ``REMEMBERED`` ones has the
position that it got, and is not stored twice. After a restart the newest events of the log are remembered, by id and
content alone, since the log does not say who published.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

REMEMBERED = 65_536


class SeenEvent(msgspec.Struct, gc=False):
    """An event that was sent. There are many of them, all the time: the garbage collector need not walk over them."""

    content: int  # the hash of it
    position: int = -1  # until it is stored


class SeenEvents:
    """The newest events by user and id, in two generations."""

    __slots__ = ("_old", "_young")

    def __init__(self) -> None:
        self._young: dict[tuple[str, str], SeenEvent] = {}
        self._old: dict[tuple[str, str], SeenEvent] = {}

    def remember(self, event_id: str, text: bytes, position: int) -> None:
        """An event of the log, from before this start."""
        self._old["", event_id] = SeenEvent(hash(text), position)

    def look_up(self, user: str, event_ids: Sequence[str], texts: Sequence[bytes]) -> tuple[list[SeenEvent], set[int]]:
        """What is known of each, and the numbers of those that are stored already, or about to be."""
        if len(self._young) > REMEMBERED:
            self._young, self._old = {}, self._young
        young, old = self._young, self._old
        known: list[SeenEvent] = []
        again: set[int] = set()
        for number, (event_id, text) in enumerate(zip(event_ids, texts, strict=True)):
            key, content = (user, event_id), hash(text)
            found = young.get(key) or old.get(key) or old.get(("", event_id))
            if found is not None and found.content == content:
                again.add(number)
            else:
                found = young[key] = SeenEvent(content)
            known.append(found)
        return known, again

    def forget_unstored(self) -> None:
        """A commit failed: what it was to store was not sent."""
        self._young = {key: seen for key, seen in self._young.items() if seen.position >= 0}
        self._old = {key: seen for key, seen in self._old.items() if seen.position >= 0}
