"""The desk: subscriptions, and what becomes of an event that matches them (the mobility document, 8, 9 and 11).

A notification's nid is ``position * 2**20 + ordinal``, so it grows along the log and is the same when the event is
dispatched again. An event is judged at ``at``, the instant at which it was accepted: a subscription that has expired by
then gets nothing and is removed, and its owner is told; constraints are judged after the filter, in their order; what
passes is put into the box of the user, or of the device that the subscription is for.

Matching is not done here: the caller says which subscriptions an event matched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias

from recado.delivery.constraints import Constraints
from recado.delivery.exchange import Exchange
from recado.delivery.mailbox import Bounds, Box, Note
from recado.delivery.notices import Dropped, Notice
from recado.delivery.outgoing import NEVER
from recado.delivery.policy import satisfied
from recado.delivery.sessions import User
from recado.delivery.standing import Standing
from recado.errors import LimitError

ORDINAL_BITS = 20
SWEPT = 500
"""Subscriptions or users that one step of a sweep looks at."""
_LAST_ORDINAL = 2**ORDINAL_BITS - 1
_by_ordinal = attrgetter("ordinal")
Faults: TypeAlias = list[tuple[Standing, Exception]]


class Desk(Exchange):
    """``leaving`` collects the subscriptions that the matcher should forget."""

    def __init__(
        self,
        bounds: Bounds,
        *,
        per_device: bool = False,
        devices_per_user: int = 64,
        next_notice: int = 1,
        next_serial: int = 1,
        grace: timedelta = timedelta(hours=1),
        per_user: int = 100_000,
        in_all: int = 2_000_000,
    ) -> None:
        super().__init__(bounds, per_device=per_device, devices_per_user=devices_per_user, next_notice=next_notice)
        self.grace = grace
        self.per_user, self.in_all = per_user, in_all
        self.next_serial = next_serial
        self.standings: dict[int, Standing] = {}  # by serial
        self.active = 0
        self.leaving: list[Standing] = []
        self._expiries: list[tuple[datetime, int]] = []
        self._closed: list[Standing] = []  # ended, and not needed for a renewal
        self._touched: dict[Box, None] = {}
        self._gapped: dict[User, None] = {}
        self._fresh = NEVER

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        name: str,
        id: str,
        *,
        position: int,
        now: datetime,
        expires_at: datetime,
        device: str = "",
        scope: str = "",
        constraints: Constraints = (),
        record: Mapping[str, Any] | None = None,
    ) -> Standing:
        """A new subscription for the events from ``position`` on; it replaces the one with its id, if there is one."""
        user = self.user(name)
        before = user.standings.get(id)
        if before is None or not before.active:
            self._check_room(user)
        if before is not None:
            self._leave(before, position, now, "replaced")
            self._close(before)
        standing = Standing(
            self.next_serial,
            id,
            user,
            self._ordinal(user),
            expires_at=expires_at,
            since=position,
            device=device,
            scope=scope,
            constraints=constraints,
            record=record,
        )
        self.enter(standing)
        self.changes.standings[standing.serial] = standing
        return standing

    def enter(self, standing: Standing) -> None:
        """Take in a subscription that is numbered already, as those of the store are."""
        user = standing.user
        self.next_serial = max(self.next_serial, standing.serial + 1)
        self.standings[standing.serial] = standing
        user.ordinals[standing.ordinal] = standing
        known = user.standings.get(standing.id)
        if known is None or known.serial < standing.serial:
            user.standings[standing.id] = standing
        if standing.active:
            self.active += 1
        elif standing.reason != "expired" or user.standings[standing.id] is not standing:
            self._close(standing)
            return
        heappush(self._expiries, (standing.expires_at, standing.serial))

    def _check_room(self, user: User) -> None:
        if len(user.standings) >= self.per_user:
            raise LimitError(f"user {user.name!r} has {len(user.standings):,} subscriptions, which is the limit")
        if self.active >= self.in_all:
            raise LimitError(f"the service has {self.active:,} subscriptions, which is the limit")

    def _ordinal(self, user: User) -> int:
        """The next number after the last one that none of the user's subscriptions has; after the greatest comes 1."""
        last = next(reversed(user.ordinals), 0)
        following = chain(range(last + 1, _LAST_ORDINAL + 1), range(1, last + 1))
        return next(number for number in following if number not in user.ordinals)

    def renew(self, standing: Standing, expires_at: datetime, *, position: int, now: datetime) -> Standing:
        """Extend it; one that expired within the grace goes on under its id."""
        if not standing.active or standing.expires_at <= now:
            return self.subscribe(
                standing.user.name,
                standing.id,
                position=position,
                now=now,
                expires_at=expires_at,
                device=standing.device,
                scope=standing.scope,
                constraints=standing.constraints,
                record=standing.record,
            )
        if expires_at < standing.expires_at:
            heappush(self._expiries, (expires_at, standing.serial))
        standing.expires_at = expires_at
        self.changes.standings[standing.serial] = standing
        return standing

    def cancel(self, standing: Standing, *, position: int, now: datetime, tell: bool = False) -> None:
        """Its owner wants it no more or, with ``tell``, somebody else has ended it and the owner is told so."""
        self._leave(standing, position, now, "cancelled")
        if tell:
            self._tell_end(standing, position, "cancelled")
        self._close(standing)

    def discard(self, name: str, device: str, *, position: int, now: datetime) -> list[Standing]:
        """Cancel the user's subscriptions, but for those of other devices, and empty their mailboxes."""
        user = self.user(name)
        mine = [s for s in user.standings.values() if s.scope in ("", device)]
        for standing in mine:
            self.cancel(standing, position=position, now=now)
        for box in [box for box in user.boxes.values() if box.device in ("", device)]:
            self.purge(user, box.device, tell=False)
        return mine

    def _leave(self, standing: Standing, position: int, now: datetime, reason: str) -> None:
        if standing.active:
            standing.until, standing.ended_at, standing.reason = position, now, reason
            self.active -= 1
            self.leaving.append(standing)
        else:
            standing.reason = reason
        self.changes.standings[standing.serial] = standing

    def _close(self, standing: Standing) -> None:
        """It cannot be renewed any more; its record goes when all events before its end are dispatched for good."""
        if standing.user.standings.get(standing.id) is standing:
            del standing.user.standings[standing.id]
        self._closed.append(standing)

    def _expire(self, standing: Standing, position: int, now: datetime) -> None:
        self._leave(standing, position, now, "expired")
        self._tell_end(standing, position, "expired")

    def _tell_end(self, standing: Standing, position: int, reason: str) -> None:
        user = standing.user
        notice = Notice(self.next_notice, standing.scope, reason, position << ORDINAL_BITS, (standing.id,))
        self.notice(user, notice)
        for link in (*user.links.values(), *user.alone.values()):
            self.pump(link, self._fresh)

    def forget_closed(self, dispatched: int) -> None:
        """Everything before ``dispatched`` is being kept as dispatched: records that ended by then have no more use."""
        left = []
        for standing in self._closed:
            if standing.until > dispatched:
                left.append(standing)
                continue
            self.standings.pop(standing.serial, None)
            if standing.user.ordinals.get(standing.ordinal) is standing:
                del standing.user.ordinals[standing.ordinal]
            self.changes.standings[standing.serial] = None
        self._closed = left

    # -- events --------------------------------------------------------------------------------------------------------

    def publish(
        self, position: int, event: bytes, at: datetime, found: list[Standing], faults: Faults | None = None
    ) -> int:
        """The event matched these subscriptions; how many notifications it gives. ``flush`` sends them.

        With ``faults``, an error at one subscription is noted there, its owner is told of a gap, and the others go on.
        """
        if len(found) > 1:
            found.sort(key=_by_ordinal)  # nids of one user grow
        count = 0
        if not self.recovering:
            self._fresh = min(self._fresh, position << ORDINAL_BITS)
        for standing in found:
            try:
                count += self._notify(standing, position, event, at)
            except Exception as error:  # one subscription's fault must not become everybody's
                if faults is None:
                    raise
                faults.append((standing, error))
                self.gap(standing.user, standing.scope, [position << ORDINAL_BITS | standing.ordinal], "damaged")
        return count

    def _notify(self, standing: Standing, position: int, event: bytes, at: datetime) -> bool:
        if not standing.since <= position < standing.until:
            return False
        if standing.expires_at <= at:
            if standing.active:  # else its end was told, or asked for
                self._expire(standing, position, at)
            return False
        user = standing.user
        if standing.constraints:
            connected = bool(user.links) or user.was_connected
            if not satisfied(standing.constraints, at, at, standing.last_notified, connected):
                return False
            if standing.remembers:
                self.changes.standings[standing.serial] = standing
        standing.last_notified = at
        standing.notified += 1
        if not user.links:
            user.queued += 1
        nid = position << ORDINAL_BITS | standing.ordinal
        for box in self._boxes(standing):
            self.put(box, Note(nid, standing.id, event, at, box), self._fresh)
            self._touched[box] = None
        return True

    def pass_over(self, position: int, at: datetime, standings: Iterable[Standing], reason: Dropped = "budget") -> int:
        """The event was not matched with these: their owners are told of a gap. How many wanted it."""
        nids: dict[tuple[str, str], list[int]] = {}
        for standing in sorted(standings, key=_by_ordinal):
            if standing.since <= position < standing.until and standing.expires_at > at:
                standing.unmatched += 1
                whose = standing.user.name, standing.scope
                nids.setdefault(whose, []).append(position << ORDINAL_BITS | standing.ordinal)
        for (name, scope), some in nids.items():
            user = self.user(name)
            self.gap(user, scope, some, reason)
            self._gapped[user] = None
        return sum(map(len, nids.values()))

    def _boxes(self, standing: Standing) -> Iterable[Box]:
        user = standing.user
        if standing.scope or not self.per_device or not user.devices:
            found = user.boxes.get(standing.scope)
            return (found if found is not None else self.box(user, standing.scope),)
        return [self.box(user, device) for device in user.devices]

    def flush(self, now: datetime) -> None:
        """Send what was published since the last call."""
        touched, self._touched = self._touched, {}
        fresh, self._fresh = self._fresh, NEVER
        for box in touched:
            self.drop(box, box.aged(self.bounds, now), "age")
            for feed in box.feeds:
                self.pump(feed.link, fresh)
        gapped, self._gapped = self._gapped, {}
        for user in gapped:
            for link in (*user.links.values(), *user.alone.values()):
                self.pump(link, fresh)

    # -- time ----------------------------------------------------------------------------------------------------------

    def sweep(self, position: int, now: datetime, device_age: timedelta) -> None:
        """What lazy checks have not met: expired subscriptions, graces that are over, and what is too old to keep."""
        for _ in self.sweeping(position, now, device_age):
            pass

    def sweeping(self, position: int, now: datetime, device_age: timedelta) -> Iterator[None]:
        """The same, some at a time: with many users it takes long, and anything may happen between two steps."""
        while self._expiries and self._expiries[0][0] <= now:
            for _ in range(SWEPT):
                if self._expiries and self._expiries[0][0] <= now:
                    self._look_at(heappop(self._expiries)[1], position, now)
            yield
        users = list(self.users.values())
        for start in range(0, len(users), SWEPT):
            for user in users[start : start + SWEPT]:
                if self.users.get(user.name) is user:
                    self.tidy(user, now, device_age)
            yield
        self.flush(now)

    def _look_at(self, serial: int, position: int, now: datetime) -> None:
        """The time has come at which this subscription was to end, or its grace."""
        standing = self.standings.get(serial)
        if standing is None:
            return
        if standing.active and standing.expires_at > now:  # it was renewed
            heappush(self._expiries, (standing.expires_at, serial))
            return
        if standing.active:
            self._expire(standing, position, now)
        if standing.reason == "expired":
            self._grace(standing, now)

    def _grace(self, standing: Standing, now: datetime) -> None:
        """Look at it again when its grace is over, and then forget it."""
        over = standing.expires_at + self.grace
        if over > now:
            heappush(self._expiries, (over, standing.serial))
        elif standing.user.standings.get(standing.id) is standing:
            self._close(standing)
