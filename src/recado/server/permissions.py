"""Who may do what. One function decides it, for every way in and for every path.

A principal acts for one user: it publishes and subscribes within its allowed event types, and reads and manages what is
that user's own. An administrator may do all of it for everybody. Deny is stronger than allow.

A publication is allowed if its type fits an allowed pattern and no denied one; an event without a type needs ``*``. A
subscription is allowed if **every** type it can take is: its type, or pattern of types, must be covered by an allowed
pattern and have nothing in common with a denied one. So whoever may hear only ``stock.*`` must say so.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NoReturn, TypeAlias

import msgspec

from recado.errors import RecadoError
from recado.filters.covering import covers, overlaps
from recado.model.filter import TRUE, Filter
from recado.model.subscription import type_filter
from recado.server.config import Access

Action: TypeAlias = Literal["publish", "subscribe", "read", "manage", "administer"]
EVERYTHING = ("*",)
_USER = re.compile(r"[A-Za-z0-9._~:@+-]{1,256}", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
WEBHOOK_DEVICES = "webhook."
"""How the names of devices begin that stand for webhooks; nobody else is called so."""


class Denied(RecadoError):  # noqa: N818  # it says what happened
    """This principal may not do that."""


class Unknown(RecadoError):  # noqa: N818  # it says what happened
    """There is no such thing, or none that this principal may know of."""


class Conflict(RecadoError):  # noqa: N818  # it says what happened
    """It does not go together with what is there."""


class Busy(RecadoError):  # noqa: N818  # it says what happened
    """Not now; later perhaps."""


class Principal(msgspec.Struct, frozen=True):
    """Patterns of event types have ``*`` and ``?``. ``name`` is that of the token, for logs; ``token`` its hash."""

    user: str
    admin: bool = False
    publish: tuple[str, ...] = EVERYTHING
    subscribe: tuple[str, ...] = EVERYTHING
    deny_publish: tuple[str, ...] = ()
    deny_subscribe: tuple[str, ...] = ()
    name: str = ""
    token: str = ""


def anonymous(access: Access, user: str) -> Principal:
    """Someone on loopback who says who they are."""
    return Principal(
        check_user(user), publish=access.default_publish, subscribe=access.default_subscribe, name="anonymous"
    )


def authorise(who: Principal, action: Action, *, user: str | None = None, event_type: str | None = None) -> None:
    """Nothing if the principal may do that; else a Denied that says why not."""
    if who.admin:
        return
    if action == "administer":
        raise Denied(f"user {who.user!r} is no administrator")
    if user is not None and user != who.user:
        raise Denied(f"user {who.user!r} may not {action} what belongs to another user")
    if event_type is None:
        return
    if action == "publish":
        if who.publish == EVERYTHING and not who.deny_publish:
            return
        if not may_publish(who.publish, who.deny_publish, event_type):
            _refuse(who, action, event_type, who.publish, who.deny_publish)
    elif not may_subscribe(who.subscribe, who.deny_subscribe, event_type):
        _refuse(who, action, event_type, who.subscribe, who.deny_subscribe)


@lru_cache(maxsize=4096)
def may_publish(allow: tuple[str, ...], deny: tuple[str, ...], event_type: str) -> bool:
    """Is this very type allowed?"""
    return any(_fits(pattern, event_type) for pattern in allow) and not any(
        _fits(pattern, event_type) for pattern in deny
    )


@lru_cache(maxsize=4096)
def may_subscribe(allow: tuple[str, ...], deny: tuple[str, ...], event_type: str) -> bool:
    """Is everything that the type, or pattern of types, can take allowed? An empty one takes everything."""
    wanted = type_filter(event_type) if event_type else TRUE
    return any(covers(_filter(pattern), wanted) for pattern in allow) and not any(
        overlaps(_filter(pattern), wanted) for pattern in deny
    )


def _filter(pattern: str) -> Filter:
    """Of permissions; there ``*`` is everything, also events without a type."""
    return TRUE if pattern == "*" else type_filter(pattern)


def _fits(pattern: str, event_type: str) -> bool:
    return pattern == "*" or _compiled(pattern).fullmatch(event_type) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(c, re.escape(c)) for c in pattern), re.DOTALL)


def _refuse(who: Principal, action: str, event_type: str, allow: tuple[str, ...], deny: tuple[str, ...]) -> NoReturn:
    but = f", but not {', '.join(deny)}" if deny else ""
    what = f"the event type {event_type!r}" if event_type else "events of any type"
    raise Denied(f"user {who.user!r} may not {action} {what}; allowed are {', '.join(allow) or 'none'}{but}")


def check_user(name: str) -> str:
    """The name itself; an error if no user can be called so."""
    if not _USER.fullmatch(name):
        raise RecadoError(
            f"{name[:80]!r} cannot name a user; use up to 256 of the characters A-Z a-z 0-9 . _ ~ : @ + -"
        )
    return name


def check_device(name: str) -> str:
    """The name itself; an error if nobody may call a device so."""
    if name.startswith(WEBHOOK_DEVICES):
        raise RecadoError(f"{name[:80]!r} cannot name a device: names with {WEBHOOK_DEVICES!r} stand for webhooks")
    if not _DEVICE.fullmatch(name):
        raise RecadoError(f"{name[:80]!r} cannot name a device; use up to 128 of the characters A-Z a-z 0-9 . _ -")
    return name
