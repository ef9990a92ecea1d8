"""The engine of a service: everything between the ways in and the files. It has no listener of its own.

    publish -> authorise, check -> log (fsync) -> acknowledge -> match -> desk -> legs
                                                                          |
                                                    state store, in the background

The log is the truth and the mailboxes are derived from it: the store keeps mailboxes together with the position up to
which they account for the log, and what lies beyond is dispatched again after a crash, with the same nids. So an
acknowledged event is never lost, whenever the process dies, and a repeated notification is recognised.

All methods are called on the thread of the event loop that ``open`` ran on. ``ready`` from the moment on that the log
is open, when events are accepted; ``listed`` when mailboxes, from which is delivered, and subscriptions are in memory;
``loaded`` when events are matched, too, which subscribing needs.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from datetime import datetime

from recado.delivery.desk import ORDINAL_BITS
from recado.delivery.mailbox import WAITING
from recado.delivery.sessions import User
from recado.delivery.standing import Standing
from recado.errors import RecadoError
from recado.protocols.session.messages import Welcome
from recado.service import engine_upkeep as upkeep
from recado.service.engine_core import EngineCore
from recado.service.engine_requests import expiry, read_wanted
from recado.service.engine_views import Held, MailboxInfo, SessionInfo, held, mailboxes_of, sessions_of
from recado.service.legs import Leg, Notified
from recado.service.permissions import Busy, Principal, Unknown, authorise, check_device

_log = logging.getLogger("recado.service")


class Engine(EngineCore):
    """Use ``open``: subscriptions, connections and mailboxes, on the core."""

    # -- subscriptions -------------------------------------------------------------------------------------------------

    async def subscribe(self, who: Principal, record: bytes, device: str) -> Held:
        """A subscription for the caller's user; durable, and active for all later events, when this returns."""
        await self.when_loaded()
        now = self.clock()
        wanted = read_wanted(record, check_device(device), now, self.config.subscriptions)
        authorise(who, "subscribe", type=wanted.subscription.type)
        if wanted.subscription.semantic is not None or self.config.semantics.always:
            await self.ahead.run(who.user, self.matcher.checking(wanted.subscription))
        self.keeper.check()
        owner = self.desk.users.get(who.user)
        before = owner.standings.get(wanted.subscription.id) if owner else None
        replaces = before is not None and before.active
        standing = self.desk.subscribe(
            who.user,
            wanted.subscription.id,
            position=self.dispatcher.end,
            now=now,
            expires_at=wanted.expires_at,
            device=wanted.device,
            scope=wanted.scope,
            constraints=wanted.constraints,
            record=wanted.record,
        )
        upkeep.match_from_now(self, standing, wanted.subscription)
        await self._kept(standing, replaces=replaces)
        self.metrics.subscribed += 1
        return held(standing)

    async def renew(
        self, who: Principal, sub_id: str, expires_at: datetime | None = None, ttl: float | None = None
    ) -> Held:
        """Let a subscription live longer; one that expired a short while ago lives again."""
        await self.when_loaded()
        now = self.clock()
        standing = self._standing(who, sub_id)
        authorise(who, "subscribe", type=str(standing.record.get("type") or ""))
        until = expiry(expires_at, ttl, now, self.config.subscriptions)
        if standing.record.get("semantic") is not None or self.config.semantics.always:
            await self._check_renewal(who, standing)
            standing = self._standing(who, sub_id)  # as it is now
        self.keeper.check()
        renewed = self.desk.renew(standing, until, position=self.dispatcher.end, now=now)
        if renewed is not standing:
            upkeep.match_from_now(self, renewed, upkeep.subscription_of(renewed))
        await self._kept(renewed if renewed is not standing else None)
        return held(renewed)

    async def _check_renewal(self, who: Principal, standing: Standing) -> None:
        """One by meaning that begins anew needs what a new one needs; one that goes on needs nothing."""
        if not standing.active or standing.expires_at <= self.clock():
            await self.ahead.run(who.user, self.matcher.checking(upkeep.subscription_of(standing)))

    async def _kept(self, new: Standing | None, *, replaces: bool = False) -> None:
        """Wait for the store; a subscription that could not be stored is taken back, for nobody was told of it.

        One that replaces another stays: else its owner would be left with none, though the other was promised.
        """
        try:
            await self.keeper.kept()
        except RecadoError:
            if new is not None and new.active and replaces:
                self.watch(new, active=True)
            elif new is not None and new.active:
                self.desk.cancel(new, position=self.dispatcher.position, now=self.clock())
                self.dispatcher.forget_ended()
            raise
        if new is not None:
            self.watch(new, active=True)

    async def cancel(self, who: Principal, sub_id: str, user: str | None = None) -> None:
        """End a subscription. It gets what was accepted before, and what it has in mailboxes stays there.

        An administrator may end another user's, who is told.
        """
        await self.when_loaded()
        standing = self._standing(who, sub_id, user)
        other = standing.user.name != who.user
        self.desk.cancel(standing, position=self.dispatcher.end, now=self.clock(), tell=other)
        self.dispatcher.forget_ended()
        self.settle()
        self.metrics.cancelled += 1
        await self.keeper.kept()

    async def discard(self, who: Principal, device: str) -> int:
        """Cancel all subscriptions of the user but those of other devices, and empty their mailboxes; how many."""
        await self.when_loaded()
        gone = self.desk.discard(who.user, check_device(device), position=self.dispatcher.position, now=self.clock())
        self.dispatcher.forget_ended()
        self.settle()
        self.metrics.cancelled += len(gone)
        await self.keeper.kept()
        return len(gone)

    def subscriptions(self, who: Principal, user: str | None = None) -> list[Held]:
        """The active subscriptions of a user: the caller's own, or another's for an administrator ("*": all)."""
        if not self.listed:
            self._need_loaded()
        now = self.clock()
        found = [s for owner in self._users(who, user) for s in owner.standings.values()]
        return [held(s) for s in found if s.active and s.expires_at > now]

    def _standing(self, who: Principal, sub_id: str, user: str | None = None) -> Standing:
        name = user or who.user
        authorise(who, "manage", user=name)
        owner = self.desk.users.get(name)
        standing = owner.standings.get(sub_id) if owner else None
        if standing is None:
            raise Unknown(f"user {name[:80]!r} has no subscription {sub_id[:80]!r}")
        return standing

    # -- legs ----------------------------------------------------------------------------------------------------------

    def attach(self, who: Principal, device: str, leg: Leg, seen: int | None = None, log: str | None = None) -> Welcome:
        """The leg connects the device; notices and the mailbox follow as soon as they are loaded.

        ``seen`` counts positions of ``log``; of another log than ours it says nothing.
        """
        if log and log != self.log.identity:
            seen = None
        if self.draining:
            raise Busy("the service is stopping; try again in a moment")
        authorise(who, "read", user=who.user)
        new = self.config.mailbox.per_device and self._is_new(who.user, check_device(device))
        end = self.dispatcher.end << ORDINAL_BITS
        link = self.desk.attach(
            who.user, check_device(device), leg, window=leg.window, now=self.clock(), seen=seen, end=end
        )
        user: User = link.user
        if link.seen >= end:
            _log.warning(
                "device %r of user %r has seen position %d, but the log ends at %d, so it is an older copy; "
                "what the device says it has seen is not relied on",
                *(device, who.user, link.seen >> ORDINAL_BITS, self.dispatcher.end),
            )
        waiting = sum(box.length for name, box in user.boxes.items() if name in ("", device))
        welcome = Welcome(
            *(who.user, device, leg.window, waiting),
            *(tuple(other for other in user.links if other != device), self.log.identity, self.dispatcher.end),
        )
        if new:
            self.introduce()
        self._loop.call_soon(self.settle)  # so that the caller can say WELCOME first
        return welcome

    def _is_new(self, user: str, device: str) -> bool:
        """Has nobody heard of this device? It can be promised a mailbox only if the state can be read and written."""
        self._need_loaded()
        known = self.desk.users.get(user)
        if known is not None and device in known.devices:
            return False
        self.keeper.check()
        return True

    def attach_alone(self, user: str, device: str, leg: Leg) -> None:
        """The leg delivers what is for this device, and connects nobody: a webhook."""
        self.desk.attach_alone(user, device, leg, window=leg.window, now=self.clock())
        self._loop.call_soon(self.settle)

    def acked(self, leg: Leg, upto: int) -> None:
        """The leg has got everything that came on it up to a nid."""
        self._acknowledged(self.desk.acked(leg, upto))

    def acked_one(self, leg: Leg, nid: int) -> None:
        self._acknowledged(self.desk.acked_one(leg, nid))

    def acked_apart(self, leg: Leg, nids: Collection[int]) -> None:
        """The leg has got these, but not all that came before them."""
        self._acknowledged(self.desk.acked_apart(leg, nids))

    def widen(self, leg: Leg, window: int) -> None:
        """The leg takes so many unacknowledged notifications from now on."""
        self.desk.widen(leg, window)
        self.settle()

    def _acknowledged(self, count: int) -> None:
        self.metrics.acknowledged += count
        if count and self.desk.oldest_acked is not None:
            took = (self.clock() - self.desk.oldest_acked).total_seconds()
            self.metrics.delivery_seconds.observe(max(took, 0.0), count)
        self.settle()

    def noticed(self, leg: Leg, notices: Iterable[int]) -> None:
        self.desk.noticed(leg, list(notices))
        self.settle()

    def lost(self, leg: Leg, reason: str) -> None:
        """The connection failed. What it did not acknowledge waits again."""
        if leg in self.desk.links:
            _log.debug("a connection of kind %s was lost: %s", leg.kind, reason)
            self.desk.lost(leg, self.clock())
            self.settle()

    def ended(self, leg: Leg) -> None:
        """The device ended its session."""
        self.desk.ended(leg)
        self.settle()

    # -- what there is -------------------------------------------------------------------------------------------------

    def sessions(self, who: Principal, user: str | None = None) -> list[SessionInfo]:
        """The devices of a user, or of all ("*") for an administrator."""
        return [info for owner in self._users(who, user) for info in sessions_of(owner)]

    def end_session(self, who: Principal, user: str, device: str | None = None) -> int:
        """End the session of a device, or of all devices of the user; how many there were."""
        authorise(who, "manage", user=user)
        owner = self._user(user)
        ids = [id for id in owner.devices if device in (None, id)]
        for id in ids:
            link = owner.links.get(id)
            if link is not None:
                self.desk.ended(link.key)
                link.key.close("ended")
            self.desk.forget_device(owner, id)
        self.settle()
        return len(ids)

    def mailboxes(self, who: Principal, user: str | None = None) -> list[MailboxInfo]:
        self._need_loaded()
        return [info for owner in self._users(who, user) for info in mailboxes_of(owner)]

    async def peek(
        self, who: Principal, user: str, limit: int, after_nid: int | None = None, device: str | None = None
    ) -> list[Notified]:
        """What waits for a user, oldest first; it stays there."""
        await self.when_loaded()
        authorise(who, "read", user=user)
        boxes = [box for box in self._user(user).boxes.values() if device is None or box.device in ("", device)]
        after = -1 if after_nid is None else after_nid
        notes = [n for box in boxes for n in box.notes[box.head :] if n.state == WAITING and n.nid > after]
        notes.sort(key=lambda note: note.nid)
        return [self.dispatcher.notified(note, True) for note in notes[:limit]]

    async def purge(self, who: Principal, user: str, device: str | None = None) -> int:
        """Empty the mailboxes of a user, who is told; how many notifications are gone."""
        await self.when_loaded()
        authorise(who, "manage", user=user)
        count = self.desk.purge(self._user(user), device)
        self.settle()
        await self.keeper.kept()
        return count

    def _users(self, who: Principal, user: str | None) -> list[User]:
        if user is None:
            user = who.user
        authorise(who, "read", user=user)
        if user == "*":
            return list(self.desk.users.values())
        return [self.desk.users[user]] if user in self.desk.users else []

    def _user(self, name: str) -> User:
        found = self.desk.users.get(name)
        if found is None:
            raise Unknown(f"nothing is known of user {name[:80]!r}")
        return found

    def _need_loaded(self) -> None:
        if not self.loaded:
            raise Busy("subscriptions and mailboxes are still being loaded; try again in a moment")
