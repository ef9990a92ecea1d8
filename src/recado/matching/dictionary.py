"""Names and constants as small integers.

Each attribute name that some filter uses has a number, and so has each constant that some filter compares it with.
A *code* says what the kernel needs to know of a value: ``constant << 2 | kind``, where constant 0 means "none that any
filter asks for"; ``ABSENT`` for a missing attribute and ``NAN`` for the value that compares with nothing.
Equal values have equal codes (``1`` and ``1.0``), values of different kinds never do (``1`` and ``true``).

**Who owns a constant.** Whoever asks for a code holds it from that moment (``hold``) until they give it back
(``release``), once for each time they asked. So there is never a code that somebody knows and nobody holds: what was
given back by the last holder may be given to another constant at once. A compiled program holds its codes; the entry
made of it takes them over.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime

from recado.errors import LimitError
from recado.model.values import Kind, Value, canonical, in_utc, kind_of

ABSENT, NAN = -1, -2
MAX_ATTRIBUTES = 1 << 20
MAX_CONSTANTS = 1 << 29
_BOOLS: dict[bool, Hashable] = {True: ("bool", True), False: ("bool", False)}


def key_of(value: Value) -> Hashable:
    """The dictionary key of a value: Python's own equality, but booleans are not numbers, and instants are in UTC."""
    if type(value) is bool:
        return _BOOLS[value]
    return in_utc(value) if type(value) is datetime else value


class Codes(dict[Hashable, int]):
    """The codes of an attribute's constants. Asked with ``[]`` it knows all strings, whether or not a filter does."""

    __slots__ = ()

    def __missing__(self, value: Hashable) -> int:
        if type(value) is not str:
            raise KeyError(value)
        return int(Kind.STRING)


class Dictionary:
    """Grows with the filters; an attribute's ``version`` changes whenever one of its codes is given or taken back."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.codes: list[Codes] = []
        self.wants_text: list[bool] = []
        self.wants_folded: list[bool] = []
        self.has_others: list[bool] = []  # does the attribute have, or had it, constants that are no strings?
        self.versions: list[int] = []
        self._keys: list[Hashable] = [None]  # by constant
        self._free: list[int] = []
        self.attribute_of: list[int] = [0]
        self.references: list[int] = [0]
        self.changed: set[int] = set()  # attributes that got new constants since somebody looked
        self.changes = 0  # how often a code was given or taken back
        self.text_changes = 0  # how often an attribute began to need its text
        self.layout_changes = 0  # how often that happened, a name came, or a first constant that is no string

    @property
    def constants(self) -> int:
        """How many constant numbers were ever given, 0 included."""
        return len(self._keys)

    def attribute(self, name: str) -> int:
        """The number of a name, given now if it is new."""
        number = self.names.get(name)
        if number is None:
            number = len(self.codes)
            if number >= MAX_ATTRIBUTES:
                raise LimitError(f"the index has {number:,} attribute names; it holds no more")
            self.names[name] = number
            self.codes.append(Codes())
            self.wants_text.append(False)
            self.wants_folded.append(False)
            self.has_others.append(False)
            self.versions.append(0)
            self.layout_changes += 1
        return number

    def needs_text(self, attribute: int, fold: bool) -> None:
        """Some filter looks into the text of this attribute."""
        wanted = self.wants_folded if fold else self.wants_text
        if not wanted[attribute]:
            wanted[attribute] = True
            self.text_changes += 1
            self.layout_changes += 1

    def only_compares(self, attribute: int) -> bool:
        """Is all that filters do with this attribute to compare it with strings, or to ask whether it is there?"""
        return not (self.has_others[attribute] or self.wants_text[attribute] or self.wants_folded[attribute])

    def hold(self, attribute: int, value: Value) -> int:
        """The code of a constant, held for the caller until ``release``."""
        key = key_of(value)
        code = self.codes[attribute].get(key)
        if code is None:
            code = self._enter(attribute, key, kind_of(value))
        self.references[code >> 2] += 1
        return code

    def _enter(self, attribute: int, key: Hashable, kind: Kind) -> int:
        if isinstance(key, float):
            key = canonical(key)
        if self._free:
            constant = self._free.pop()
            self._keys[constant] = key
        else:
            constant = len(self._keys)
            if constant >= MAX_CONSTANTS:
                raise LimitError(f"the index has {constant:,} constants; it holds no more")
            self._keys.append(key)
            self.attribute_of.append(attribute)
            self.references.append(0)
        self.attribute_of[constant] = attribute
        self.references[constant] = 0
        code = constant << 2 | kind
        self.codes[attribute][key] = code
        if kind is not Kind.STRING and not self.has_others[attribute]:
            self.has_others[attribute] = True
            self.layout_changes += 1
        self.changed.add(attribute)
        self.versions[attribute] += 1
        self.changes += 1
        return code

    def release(self, codes: Iterable[int]) -> list[int]:
        """Give codes back, each as often as it was held; returns the constants that nobody holds any more."""
        gone = []
        for code in codes:
            constant = code >> 2
            assert self.references[constant] > 0, f"constant {constant} is given back more often than it was held"
            self.references[constant] -= 1
            if self.references[constant] == 0:
                attribute = self.attribute_of[constant]
                del self.codes[attribute][self._keys[constant]]
                self.versions[attribute] += 1
                self.changes += 1
                self._keys[constant] = None
                self._free.append(constant)
                gone.append(constant)
        return gone

    # -- for snapshots

    def constant_values(self) -> list[Value | None]:
        """The constants by number; None for those not in use."""
        return [key[1] if type(key) is tuple else key for key in self._keys]  # type: ignore[misc]

    def free(self) -> list[int]:
        return self._free

    def restore(
        self,
        names: list[str],
        wants_text: list[bool],
        wants_folded: list[bool],
        constants: Sequence[Value | None],
        free: list[int],
        attribute_of: list[int],
        references: list[int],
    ) -> None:
        """Become the dictionary that a snapshot was made of."""
        self.names = {name: number for number, name in enumerate(names)}
        self.wants_text, self.wants_folded = wants_text, wants_folded
        self.versions = [0] * len(names)
        self.codes = [Codes() for _ in names]
        self.has_others = [False] * len(names)
        self.layout_changes += 1
        self._keys = [None if value is None else key_of(value) for value in constants]
        self._free = free
        self.attribute_of, self.references = attribute_of, references
        for constant, (attribute, value) in enumerate(zip(attribute_of, constants, strict=True)):
            if value is not None:
                kind = kind_of(value)
                self.codes[attribute][key_of(value)] = constant << 2 | kind
                self.has_others[attribute] |= kind is not Kind.STRING

    def nbytes(self) -> int:
        """About what the tables weigh, constants and names included."""
        tables = sum(map(sys.getsizeof, self.codes)) + sys.getsizeof(self.names) + sys.getsizeof(self._keys)
        values = sum(map(sys.getsizeof, self._keys)) + sum(map(sys.getsizeof, self.names))
        return tables + values + sys.getsizeof(self.attribute_of) + sys.getsizeof(self.references)
