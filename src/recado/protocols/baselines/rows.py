"""Sets of filters by name: what a table holds for one destination, and what one neighbour was told.

Filters that ask for one event type are kept by it, so that an event, or a filter of the same type, meets no others.
"""

from __future__ import annotations

from collections.abc import Iterator

from recado.model.event import Event
from recado.protocols.baselines.algebra import answers, type_of
from recado.protocols.baselines.messages import Interests


class Rows:
    """Filters by name."""

    __slots__ = ("_types", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._types: dict[str, dict[str, str]] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def __contains__(self, name: str) -> bool:
        return name in self.texts

    def put(self, name: str, text: str) -> None:
        self.texts[name] = text
        self._types.setdefault(type_of(text), {})[name] = text

    def take(self, name: str) -> str:
        text = self.texts.pop(name)
        kind = type_of(text)
        del self._types[kind][name]
        if not self._types[kind]:
            del self._types[kind]
        return text

    def of(self, *types: str) -> Iterator[tuple[str, str]]:
        """Names and filters of the given types; the empty type stands for filters that ask for no single one."""
        for type in dict.fromkeys(types):
            yield from self._types.get(type, {}).items()

    def matching(self, event: Event) -> list[str]:
        """The names of the filters that the event matches."""
        answer = answers(event)
        return [name for name, text in self.of(event.type, "") if answer(text)]

    def wants(self, event: Event) -> bool:
        """Is there any filter that the event matches?"""
        answer = answers(event)
        for type in (event.type, "") if event.type else ("",):
            for text in self._types.get(type, {}).values():
                if answer(text):
                    return True
        return False


class Told:
    """What one neighbour was told, and what is to be told next."""

    __slots__ = ("_dropped", "_new", "sent")

    def __init__(self) -> None:
        self.sent = Rows()
        self._new: dict[str, str] = {}
        self._dropped: dict[str, None] = {}

    def put(self, name: str, text: str) -> None:
        self.sent.put(name, text)
        if name in self._dropped:
            del self._dropped[name]
        else:
            self._new[name] = text

    def take(self, name: str) -> str:
        if name in self._new:
            del self._new[name]
        else:
            self._dropped[name] = None
        return self.sent.take(name)

    def message(self, tree: str) -> Interests | None:
        """The change since the last message, if there is one."""
        if not self._new and not self._dropped:
            return None
        message = Interests(tuple(self._new.items()), tuple(self._dropped), tree)
        self._new, self._dropped = {}, {}
        return message
