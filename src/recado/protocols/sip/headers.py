"""The headers of a message: an ordered list of fields whose names are compared without case.

Compact names (RFC 3261, section 7.3.3, and the later ones) become the long ones. A field that may hold several values
separated by commas is cut by ``values``; ``one`` insists on a field that may stand there once only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recado.protocols.sip.errors import SipError
from recado.protocols.sip.limits import LIMITS
from recado.protocols.sip.text import split

COMPACT = {
    "a": "accept-contact", "b": "referred-by", "c": "content-type", "d": "request-disposition",
    "e": "content-encoding", "f": "from", "i": "call-id", "j": "reject-contact", "k": "supported",
    "l": "content-length", "m": "contact", "n": "identity-info", "o": "event", "r": "refer-to", "s": "subject",
    "t": "to", "u": "allow-events", "v": "via", "x": "session-expires", "y": "identity",
}  # fmt: skip
_SPELLED = {
    "call-id": "Call-ID",
    "cseq": "CSeq",
    "www-authenticate": "WWW-Authenticate",
    "mime-version": "MIME-Version",
}


def canonical(name: str) -> str:
    low = name.lower()
    return COMPACT.get(low, low)


def spelled(name: str) -> str:
    """A name as it is written on the wire."""
    return _SPELLED.get(name) or "-".join(part.capitalize() for part in name.split("-"))


class Headers:
    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields = [(canonical(name), value) for name, value in fields]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._fields == other._fields

    __hash__ = None  # type: ignore[assignment]  # they change

    def __repr__(self) -> str:
        return f"Headers({self._fields!r})"

    def copy(self) -> Headers:
        made = Headers()
        made._fields = list(self._fields)
        return made

    def get(self, name: str) -> str | None:
        """The first field of that name."""
        return next((value for key, value in self._fields if key == name), None)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self._fields if key == name]

    def one(self, name: str) -> str:
        found = self.all(name)
        if len(found) != 1:
            amount = "missing" if not found else f"there {len(found)} times"
            raise SipError(f"the header {spelled(name)} is {amount}; it has to be there once")
        return found[0]

    def values(self, name: str) -> list[str]:
        """All values of a header that is a list, in order."""
        found = [one for field in self.all(name) for one in split(field, ",", LIMITS.values)]
        if len(found) > LIMITS.values:
            raise SipError(f"the header {spelled(name)} has more than {LIMITS.values} values")
        if "" in found:
            raise SipError(f"the header {spelled(name)} has an empty value between its commas")
        return found

    def add(self, name: str, value: str) -> None:
        self._fields.append((canonical(name), value))

    def set(self, name: str, value: str) -> None:
        """Instead of all fields of that name, at the place of the first."""
        places = [at for at, (key, _) in enumerate(self._fields) if key == name]
        self.remove(name)
        self._fields.insert(places[0] if places else len(self._fields), (name, value))

    def push(self, name: str, value: str) -> None:
        """Before all fields of that name."""
        places = [at for at, (key, _) in enumerate(self._fields) if key == name]
        self._fields.insert(places[0] if places else 0, (name, value))

    def pop(self, name: str) -> str:
        """Take away the first value of a list."""
        first, *rest = self.values(name)
        self.remove(name)
        for at, value in enumerate(rest):
            self._fields.insert(at, (name, value))
        return first

    def remove(self, name: str) -> None:
        self._fields = [field for field in self._fields if field[0] != name]
