"""Lists in pages: subscriptions, sessions and mailboxes, ordered by user and then by name.

A cursor names the last entry of a page, and the next page begins with what follows it in that order. So whatever comes
or goes between two pages, nothing that was there all the time is left out or shown twice.

A page has as many entries as were asked for, at most ``PAGE_BYTES`` of JSON unless one alone has more, and looks at no
more than ``LOOKED_AT`` users and entries: a list of very many, of which few are wanted, has pages with little or
nothing on them. Only a page without a cursor is the last.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from heapq import nsmallest
from typing import Any, TypeAlias, TypeVar

import msgspec

from recado.broker.state import State, User
from recado.errors import RecadoError

MOST = 1_000
"""Entries on one page, also if nobody says how many."""
PAGE_BYTES = 2**20
LOOKED_AT = 10_000

T = TypeVar("T")
Place: TypeAlias = tuple[str, str | None]
"""A user and the name of an entry; None is after all of the user's."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Place).decode


class CursorError(RecadoError):
    """What was given as a cursor is none."""


class PageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Of a list: whose (a name, or with ``*`` after it the beginning of names), and which part.

    ``after`` is the cursor that the page before gave; ``prefix`` is how the names of entries begin.
    """

    user: str
    limit: int = MOST
    after: str | None = None
    prefix: str = ""


class Page(msgspec.Struct, frozen=True):
    """``entries`` are JSON already; ``following`` is the cursor for the next page, None if this is the last."""

    entries: list[bytes]
    following: str | None


def read_page(
    state: State, request: PageRequest, named: Callable[[User], Mapping[str, T]], shown: Callable[[User, T], Any]
) -> Page:
    """A page of what ``named`` gives for each user, as ``shown`` shows it; what it shows as None is left out.

    Raises CursorError.
    """
    place = None if request.after is None else read_cursor(request.after)
    entries: list[bytes] = []
    size = looked = 0
    for user in _users(state, request.user, place):
        things = named(user)
        beyond = place[1] if place is not None and place[0] == user.name else None
        for name in _names(things, beyond, request):
            entry = shown(user, things[name])
            text = b"" if entry is None else _encode(entry)
            full = len(entries) >= request.limit or (entries and size + len(text) > PAGE_BYTES)
            if looked >= LOOKED_AT or (text and full):
                return Page(entries, None if place is None else write_cursor(place))
            place = user.name, name
            looked += 1
            if text:
                entries.append(text)
                size += len(text)
        place = user.name, None
        looked += 1
        if looked >= LOOKED_AT:
            return Page(entries, write_cursor(place))
    return Page(entries, None)


def _users(state: State, pattern: str, place: Place | None) -> Iterator[User]:
    if not pattern.endswith("*"):
        user = state.users.get(pattern)
        if user is not None and place != (pattern, None):
            yield user
        return
    prefix = pattern[:-1]
    for user in state.names.read(prefix if place is None else max(prefix, place[0]), state.users):
        if not user.name.startswith(prefix):
            return
        if place != (user.name, None):
            yield user


def _names(things: Mapping[str, Any], beyond: str | None, request: PageRequest) -> Iterator[str]:
    """In order, from after ``beyond`` on; of very many only those that the page has room for are put in order."""
    prefix, some = request.prefix, request.limit + 1
    while True:
        after = beyond
        found = nsmallest(
            some, (name for name in things if (after is None or name > after) and name.startswith(prefix))
        )
        yield from found
        if len(found) < some:
            return
        beyond = found[-1]


def write_cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(_encode(place)).rstrip(b"=").decode()


def read_cursor(text: str) -> Place:
    """Raises CursorError."""
    try:
        place: Place = _decode(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise CursorError(f"{text[:50]!r} is no cursor; give what the page before has as next") from None
    return place
