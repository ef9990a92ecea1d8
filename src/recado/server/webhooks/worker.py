"""Webhooks as consumers: one for each subscription that has one, which takes its notifications one after another.

To the engine a webhook is a device of its own, with its own mailbox and window, so its failures hold up nobody else.
While there is something to send a worker sends it, one notification at a time and in their order: 2xx acknowledges
it, 410 cancels the subscription, anything else is tried again after a back-off with full jitter; after
``webhooks.attempts`` it becomes a dead letter and the next one has its turn. How many send at the same time is bounded,
in all and for each user: whoever has slow targets waits for them alone.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import random
import ssl
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from recado.errors import RecadoError
from recado.model.codec import read_event, write_cloudevent
from recado.model.event import Event
from recado.model.tracing import mark_trace, trace_of
from recado.model.values import format_time
from recado.net.address_policy import IpAddress
from recado.protocols.session.messages import FromService, Gap, SubCancelled
from recado.server.consumer import OutgoingNotification
from recado.server.engine import Engine
from recado.server.permissions import Conflict, Principal, Unknown
from recado.server.requests import SubscriptionInfo, webhook_device
from recado.server.webhooks.dead_letters import DeadLetter, DeadLetterStore
from recado.server.webhooks.targets import Resolver, Webhook, WebhookError, read_webhook
from recado.version import __version__

if TYPE_CHECKING:
    import httpx


# --- One attempt at a webhook: a signed POST to a checked address, of whose answer little is read --------------------
#
# The signature is ``HMAC-SHA256(secret, timestamp + "." + subscription + "." + nid + "." + body)`` in hexadecimal. The
# timestamp is part of it, so that a request that someone recorded is of no use later, and so is what the receiver goes
# by: a notification of one subscription cannot be passed off as one of another, nor a repeated one as new. Redirects
# are not followed, proxies of the environment not used, at most some kilobytes of the answer are read, and everything
# together may take ``webhooks.timeout_seconds``.


_ANSWER_BYTES = 4_096
_JSON, _CLOUDEVENT = "application/json", "application/cloudevents+json"


class Outcome(NamedTuple):
    """``status`` is 0 if there was no answer; ``after`` is what Retry-After asks for, in seconds."""

    status: int
    reason: str
    after: float = 0.0

    @property
    def taken(self) -> bool:
        return 200 <= self.status < 300


class Sending(NamedTuple):
    """A notification on its way to a webhook."""

    sub_id: str
    nid: int
    event_id: str
    body: bytes
    media: str
    event: Event | None = None
    trace: Mapping[str, str] = {}  # headers


def sending(webhook: Webhook, sub_id: str, nid: int, event: bytes) -> Sending:
    """The request's body: the event as it is stored, or as a CloudEvent where that is asked for and possible."""
    read = mark_trace(read_event(event))
    trace = trace_of(read)  # a span of the attempt takes its place
    if webhook.format == "cloudevent":
        try:
            return Sending(sub_id, nid, read.id, write_cloudevent(read), _CLOUDEVENT, read, trace)
        except RecadoError:
            pass  # without a type or a source it cannot be one
    return Sending(sub_id, nid, read.id, event, _JSON, read, trace)


def sign(secret: str, timestamp: str, subscription: str, nid: str, body: bytes) -> str:
    """The value of ``Recado-Signature``, for the values of the other headers as they are sent."""
    signed = f"{timestamp}.{subscription}.{nid}.".encode() + body
    return f"v2={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def headers(webhook: Webhook, what: Sending, attempt: int, timestamp: str) -> dict[str, str]:
    found = {
        "content-type": what.media,
        "user-agent": f"recado/{__version__}",
        "recado-subscription": _ascii(what.sub_id),
        "recado-nid": str(what.nid),
        "recado-attempt": str(attempt),
        "recado-timestamp": timestamp,
        "x-subscription-id": _ascii(what.sub_id),
        "x-notification-id": _ascii(what.event_id),
        **what.trace,
    }
    if webhook.secret:
        found["recado-signature"] = sign(
            webhook.secret, timestamp, found["recado-subscription"], found["recado-nid"], what.body
        )
    return found


def _ascii(text: str) -> str:
    """A text that a header can hold: anything beyond printable ASCII percent-encoded."""
    return "".join(c if " " < c < "\x7f" and c != "%" else "".join(f"%{b:02X}" for b in c.encode()) for c in text)


class Sender:
    """Sends to one target, over one connection at a time that is kept while it is used."""

    def __init__(self, private: bool, seconds: float, tls: ssl.SSLContext, resolver: Resolver) -> None:
        import httpx  # noqa: PLC0415  # slow to import, and most services call no webhook

        self._private, self._seconds, self._resolver = private, seconds, resolver
        self._errors = (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError, UnicodeError)
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=15)
        self._client = httpx.AsyncClient(verify=tls, trust_env=False, follow_redirects=False, limits=limits)

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, webhook: Webhook, what: Sending, attempt: int, timestamp: str) -> Outcome:
        """One attempt; whatever goes wrong is an outcome."""
        try:
            async with asyncio.timeout(self._seconds):
                address = await self._resolver.resolve(webhook.url, self._private)
                return await self._post(webhook, what, headers(webhook, what, attempt, timestamp), address)
        except TimeoutError:
            return Outcome(0, f"no answer within {self._seconds:g} s")
        except WebhookError as error:
            return Outcome(0, str(error))
        except self._errors as error:
            return Outcome(0, f"{type(error).__name__}: {error}"[:300])

    async def _post(self, webhook: Webhook, what: Sending, fields: dict[str, str], address: IpAddress) -> Outcome:
        parts = urlsplit(webhook.url)
        host = parts.hostname or ""
        literal = f"[{address}]" if address.version == 6 else str(address)
        place = literal if parts.port is None else f"{literal}:{parts.port}"
        url = urlunsplit((parts.scheme, place, parts.path or "/", parts.query, ""))
        request = self._client.build_request(
            "POST", url, content=what.body, headers={**fields, "host": parts.netloc},
            extensions={"sni_hostname": host},
        )  # fmt: skip
        response = await self._client.send(request, stream=True)
        try:
            await _read_little(response)
        finally:
            await response.aclose()
        return Outcome(response.status_code, f"status {response.status_code}", _retry_after(response))


async def _read_little(response: httpx.Response) -> None:
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > _ANSWER_BYTES:
            return


def _retry_after(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        asked = parsedate_to_datetime(text).timestamp() - parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError):
        return 0.0
    return max(asked, 0.0)


# --- Webhooks as consumers: one for each subscription that has one, which takes notifications one by one -------------

WINDOW = 64
GONE = "webhook gone"
"""Why a subscription ended, as its owner is told, whose webhook answered 410."""
_log = logging.getLogger("recado.webhooks")


class Item:
    """What is to be sent; a letter that is tried again is no matter of the engine any more."""

    __slots__ = ("event", "letter", "nid")

    def __init__(self, nid: int, event: bytes, letter: DeadLetter | None = None) -> None:
        self.nid, self.event, self.letter = nid, event, letter


class Target:
    """The consumer of one webhook."""

    kind = "webhook"

    def __init__(self, user: str, sub_id: str, webhook: Webhook, news: Callable[[Target], None]) -> None:
        self.user, self.sub_id, self.webhook = user, sub_id, webhook
        self.address, self.window = webhook.url, WINDOW
        self.items: deque[Item] = deque()
        self.notices: list[int] = []
        self.worker: asyncio.Task[None] | None = None
        self.closed = False
        self.last = False  # nothing new will come
        self._news = news

    def push(self, notifications: Sequence[OutgoingNotification]) -> None:
        self.items.extend(Item(notified.nid, notified.event) for notified in notifications)
        self._news(self)

    def notice(self, notices: Sequence[Gap | SubCancelled]) -> None:
        """A webhook has no place for notices: they are confirmed, and counted in the metrics."""
        self.notices += [notice.notice for notice in notices]
        self._news(self)

    def say(self, messages: Sequence[FromService]) -> None:
        """There are no requests here, so there is nothing to answer."""

    def close(self, reason: str) -> None:
        self.closed = True
        self.items.clear()


class Places:
    """How many requests may be under way: ``most`` in all, ``share`` of one user.

    Free places go to those who wait in the order of their coming, past those whose user has its share already.
    """

    def __init__(self, most: int, share: int) -> None:
        self._most, self._share = most, share
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # by user; the one with a turn next comes first

    @asynccontextmanager
    async def take(self, user: str) -> AsyncIterator[None]:
        if self._has_room(user) and user not in self._waiting:
            self._held[user] += 1
        else:
            await self._wait(user)
        try:
            yield
        finally:
            self._give_back(user)

    def held(self, user: str) -> int:
        return self._held[user]

    def _has_room(self, user: str) -> bool:
        return self._held.total() < self._most and self._held[user] < self._share

    async def _wait(self, user: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(user)
            raise

    def _give_back(self, user: str) -> None:
        self._held[user] -= 1
        if not self._held[user]:
            del self._held[user]
        for other in list(self._waiting):
            while self._waiting.get(other) and self._has_room(other):
                turn = self._waiting[other].popleft()
                waiting = self._waiting.pop(other)
                if waiting:
                    self._waiting[other] = waiting  # behind the other users: they take turns
                if not turn.done():
                    self._held[other] += 1
                    turn.set_result(None)
                    break
            if self._held.total() >= self._most:
                return


class Webhooks:
    """All webhooks of a service."""

    def __init__(self, engine: Engine, letters: DeadLetterStore) -> None:
        self._engine, self._letters, self._settings = engine, letters, engine.config.webhooks
        self._metrics = engine.metrics
        settings = self._settings
        self._places = Places(settings.concurrency, min(settings.concurrency_per_user, settings.concurrency))
        self._resolver = Resolver(settings.concurrency)
        self._tls: ssl.SSLContext | None = None
        self._targets: dict[tuple[str, str], Target] = {}  # by user and subscription
        self._closing = False

    def __len__(self) -> int:
        return len(self._targets)

    def start(self) -> None:
        """From now on hear of subscriptions; of those that are there already, too."""
        self._engine.watchers.append(self._watch)
        if self._engine.loaded:
            for held in self._engine.subscriptions(Principal("recado", admin=True), "*"):
                self._watch(held, True)

    def _watch(self, held: SubscriptionInfo, active: bool) -> None:
        members = held.record.get("webhook")
        if members is None or not self._settings.enabled:
            return
        if not active:
            self._on_end(held.user, held.id)
            return
        try:
            self._add(held.user, held.id, read_webhook(members, self._settings.private))
        except RecadoError as error:
            _log.warning("a webhook is not used", extra={"user": held.user, "reason": str(error)})

    def _on_end(self, user: str, sub_id: str) -> None:
        """Its subscription is gone; what waits is still delivered, then the consumer has no more use."""
        target = self._targets.get((user, sub_id))
        if target is not None:
            target.last = True
            self._work_on(target)

    def _add(self, user: str, sub_id: str, webhook: Webhook) -> None:
        """A subscription with a webhook is there, new or changed."""
        target = self._targets.get((user, sub_id))
        if target is not None and not target.closed:
            target.last = False
            target.webhook, target.address = webhook, webhook.url
            return
        target = self._targets[user, sub_id] = Target(user, sub_id, webhook, self._work_on)
        self._engine.attach_webhook(user, webhook_device(sub_id), target)

    def retry(self, letter: DeadLetter) -> None:
        """Send a dead letter again; it is forgotten when its target takes it."""
        target = self._targets.get((letter.user, letter.sub_id))
        if target is None or target.closed:
            raise Conflict("the subscription of this letter is gone, and with it where to send it")
        target.items.append(Item(letter.nid, letter.event, letter))
        self._work_on(target)

    async def close(self) -> None:
        """Stop sending; what was not acknowledged is in the mailboxes."""
        self._closing = True
        workers = [target.worker for target in self._targets.values() if target.worker is not None]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self._resolver.close()
        for target in self._targets.values():
            self._engine.lose(target, "draining")

    # -- the work ------------------------------------------------------------------------------------------------------

    def _work_on(self, target: Target) -> None:
        if target.worker is None and not self._closing:
            target.worker = asyncio.get_running_loop().create_task(self._work(target))

    async def _work(self, target: Target) -> None:
        self._tls = self._tls or ssl.create_default_context()
        sender = Sender(self._settings.private, self._settings.timeout_seconds, self._tls, self._resolver)
        try:
            while target.notices or target.items:
                if target.notices:
                    notices, target.notices = target.notices, []
                    self._engine.confirm_notices(target, notices)
                if target.items:
                    await self._next(target, sender)
            if target.last:
                self._forget(target)
        finally:
            target.worker = None
            await sender.close()

    async def _next(self, target: Target, sender: Sender) -> None:
        item = target.items[0]
        try:
            await self._deliver(target, item, sender)
        except Exception:  # noqa: BLE001  # the others go on, and the log has the reason
            _log.exception("a webhook failed in a way that nobody foresaw", extra={"user": target.user})
            await asyncio.sleep(self._settings.longest_delay_seconds)
            return
        if target.items and target.items[0] is item:
            target.items.popleft()
        if item.letter is None:
            self._engine.acknowledge_one(target, item.nid)

    async def _deliver(self, target: Target, item: Item, sender: Sender) -> None:
        """Attempts until it is taken, or given up."""
        attempt = 0
        while not target.closed:
            attempt += 1
            if attempt > 1 and item.letter is None:
                self._engine.note_repeats(target, 1)
            outcome = await self._attempt(target, item, sender, attempt)
            if outcome.taken:
                self._metrics.webhooks_delivered += 1
                if item.letter is not None:
                    self._letters.forget(item.letter.number)
                return
            self._metrics.webhooks_failed += 1
            if outcome.status == HTTPStatus.GONE:
                await self._cancel(target)
                return
            if attempt >= self._settings.attempts:
                self._give_up(target, item, outcome, attempt)
                return
            await asyncio.sleep(self._delay(attempt, outcome))

    async def _attempt(self, target: Target, item: Item, sender: Sender, attempt: int) -> Outcome:
        what = sending(target.webhook, target.sub_id, item.nid, item.event)
        async with self._places.take(target.user):
            begun = time.perf_counter()
            with self._span(what, attempt):
                outcome = await sender.send(target.webhook, what, attempt, str(int(time.time())))
            self._metrics.webhook_seconds.observe(time.perf_counter() - begun)
        return outcome

    def _span(self, what: Sending, attempt: int) -> AbstractContextManager[None]:
        spans, trace = self._engine.spans, what.trace
        if spans is None or what.event is None or not isinstance(trace, dict):
            return nullcontext()
        return spans.webhook(what.event, what.sub_id, attempt, trace)

    def _delay(self, attempt: int, outcome: Outcome) -> float:
        """Exponential with full jitter, so that many targets do not come back at once; never sooner than was asked."""
        longest = self._settings.longest_delay_seconds
        drawn = random.uniform(0, min(longest, self._settings.first_delay_seconds * 2 ** (attempt - 1)))  # noqa: S311  # no secret
        return max(drawn, min(outcome.after, longest))

    def _give_up(self, target: Target, item: Item, outcome: Outcome, attempts: int) -> None:
        self._metrics.webhooks_dead += 1
        told = {"user": target.user, "subscription": target.sub_id, "nid": item.nid, "reason": outcome.reason}
        _log.warning("a webhook did not take a notification", extra=told)
        if item.letter is not None:
            return  # it stays the letter that it is
        at = format_time(datetime.fromtimestamp(int(time.time()), UTC))
        self._letters.add(
            DeadLetter(
                0, target.user, target.sub_id, item.nid, target.address, item.event, outcome.reason, at, attempts
            )
        )

    def _forget(self, target: Target) -> None:
        target.close("ended")
        if self._targets.get((target.user, target.sub_id)) is target:
            del self._targets[target.user, target.sub_id]
        self._engine.lose(target, "ended")

    async def _cancel(self, target: Target) -> None:
        """The target says that it is gone for good."""
        self._forget(target)
        try:
            await self._engine.cancel(Principal(target.user), target.sub_id, reason=GONE)
        except Unknown:
            return
        _log.info("a webhook answered 410: its subscription is cancelled", extra={"user": target.user})
