"""What every way in shares: the engine, who may come in, how many, and how fast.

Connections are counted in all and by user, requests and publications by user and second; what is beyond a bound is
refused with a reason and hurts nobody else. SIP counts its sessions here, too. Those whose caller is not known yet hold
no place against others: at the bound the oldest of them is cut, so that nobody is locked out by who only connects.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from datetime import datetime
from pathlib import Path

import msgspec

from recado.model.limits import LIMITS
from recado.server.audit import AuditLog
from recado.server.config import Config
from recado.server.engine import Engine
from recado.server.identity import Identity, Rates
from recado.server.permissions import Busy, Denied, Principal, Unknown
from recado.server.polls import Polls
from recado.server.problems import TooManyError, UnauthenticatedError
from recado.server.records import MASK, prepare, unmask
from recado.server.requests import SubscriptionInfo
from recado.server.tokens import Tokens
from recado.server.webhooks.dead_letters import DeadLetterStore
from recado.server.webhooks.worker import Webhooks
from recado.store.log import Damage

LETTERS = "dead-letters.sqlite"
_DAMAGE_TOLD = 1_000
"""Stretches that cannot be read, which a replay names."""


class Gateway:
    """One of these for a service."""

    def __init__(self, engine: Engine, tokens: Tokens) -> None:
        config = engine.config
        self.engine, self.config, self.metrics, self.tokens = engine, config, engine.metrics, tokens
        self.limits = msgspec.structs.replace(LIMITS, event_bytes=min(config.limits.event_bytes, LIMITS.event_bytes))
        self.identity = Identity(config.access, tokens, config.http.host, self._failures(config), self.metrics)
        self._publications = _per_second(config.limits.publish_per_second)
        self._requests = _per_second(config.limits.requests_per_second)
        self.polls = Polls(engine, config.limits.poll_seconds)
        self.letters = DeadLetterStore(Path(config.data) / LETTERS, config.webhooks.dead_letters)
        self.webhooks = Webhooks(engine, self.letters)
        self.audit = AuditLog(config.logging.audit)
        self.count_refused_datagrams: Callable[[], Mapping[str, int]] = dict
        """By reason; whoever listens for datagrams sets it."""
        self.connections = 0
        self.strangers: dict[object, Callable[[], None]] = {}
        """Connections by peer whose caller is not known yet, the oldest first, and what cuts each."""
        self._by_user: Counter[str] = Counter()
        self._replays: Counter[str] = Counter()
        self.draining = False

    @staticmethod
    def _failures(config: Config) -> Rates:
        a_minute = config.limits.failed_logins_per_minute
        return Rates(a_minute / 60, a_minute, time.monotonic)

    async def subscribe(self, who: Principal, raw: bytes, device: str) -> SubscriptionInfo:
        """Subscribe by a record in JSON, whichever way it came; with a webhook its target is served from then on."""
        record, webhook = prepare(raw, private=self.config.webhooks.private)
        if webhook is not None and not self.config.webhooks.enabled:
            raise Denied("$.webhook: this service calls no webhooks")
        if webhook is not None and webhook.secret == MASK:
            wanted = msgspec.json.decode(record)["id"]
            try:
                kept = self.engine.find_subscription(who, wanted).record
            except Unknown:
                kept = None
            record = unmask(record, kept)
        return await self.engine.subscribe(who, record, device)

    async def replay(
        self,
        who: Principal,
        record: bytes,
        *,
        position: int | None,
        since: datetime | None,
        limit: int | None,
        damage: dict[str, None],
    ) -> AsyncGenerator[tuple[int, bytes], None]:
        """Stored events through a filter, as long as the caller may have them; ``damage`` gets what is missing."""

        def missing(one: Damage) -> None:
            told = str(one) if len(damage) < _DAMAGE_TOLD else "and more positions: recado log check names all of them"
            damage[told] = None

        found = self.engine.replay(who, record, position=position, since=since, limit=limit, on_damage=missing)
        with self._replaying(who):
            async with aclosing(found):
                async for event in found:
                    if self.tokens.current(who) != who:
                        raise UnauthenticatedError("the token was revoked, or its rights changed, in the meantime")
                    yield event

    @contextmanager
    def _replaying(self, who: Principal) -> Iterator[None]:
        """A replay reads files for as long as its caller takes its events, so there are few at the same time."""
        mine, most = self.config.limits.replays_per_user, self.config.limits.replays_in_all
        if self._replays[who.user] >= mine:
            raise TooManyError(f"user {who.user!r} has {mine:,} replays under way, which is the limit; let one end", 5)
        if self._replays.total() >= most:
            raise Busy(f"{most:,} replays are under way, which is the limit; try again in a moment")
        self._replays[who.user] += 1
        try:
            yield
        finally:
            self._replays[who.user] -= 1
            if not self._replays[who.user]:
                del self._replays[who.user]

    async def close(self) -> None:
        """Let go of what is no connection: polls and webhooks."""
        self.polls.close()
        await self.webhooks.close()
        self.letters.close()
        self.audit.close()

    def check_publish(self, who: Principal, events: int) -> None:
        """May this user publish so many more now?"""
        if wait := self._publications.take(who.user, events):
            raise TooManyError(f"user {who.user!r} publishes faster than the limit; wait {wait:.1f} s", wait)

    def check_request(self, who: Principal) -> None:
        if wait := self._requests.take(who.user):
            raise TooManyError(f"user {who.user!r} asks faster than the limit; wait {wait:.1f} s", wait)

    def has_room(self) -> bool:
        """Is there a place for one more connection? At the bound a stranger makes room, if there is one."""
        if self.connections < self.config.sessions.connections:
            return True
        if not self.strangers:
            return False
        cut = self.strangers.pop(next(iter(self.strangers)))
        self.metrics.by["connections_refused"]["displaced"] += 1
        cut()
        return True

    def check_open(self) -> None:
        """Raises Busy from the moment on at which the service drains."""
        if self.draining:
            raise Busy("the service is stopping; try again in a moment")

    def enter(self, who: Principal) -> None:
        """A session begins; ``leave`` must follow."""
        most = self.config.sessions.connections_per_user
        if self._by_user[who.user] >= most:
            raise TooManyError(f"user {who.user!r} has {most:,} connections, which is the limit; close one", 5)
        self._by_user[who.user] += 1

    def leave(self, who: Principal) -> None:
        self._by_user[who.user] -= 1
        if not self._by_user[who.user]:
            del self._by_user[who.user]


def _per_second(rate: float) -> Rates:
    return Rates(rate, rate, time.monotonic)
