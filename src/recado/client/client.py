"""The client of an application: connect, publish, subscribe, and look at counts.

Everything runs in the loop that entered ``async with``; ``recado.client.sync`` is for programs without one.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import secrets
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from itertools import count
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import msgspec

from recado.client.driver import StateFile, Transport
from recado.client.options import Options
from recado.client.session import Session
from recado.client.subscription import ClientSubscription
from recado.client.urls import resolve
from recado.errors import EventError, SubscriptionError
from recado.model.codec import read_event, write_flat
from recado.model.event import Event
from recado.model.tracing import with_trace
from recado.protocols.session import commands as words
from recado.protocols.session.commands import Existing, OnCancelled
from recado.protocols.session.messages import Gap

if TYPE_CHECKING:
    from recado.filters.syntax import Syntax  # the service reads filters; the parsers would only cost time here

Publishable: TypeAlias = str | Event | Mapping[str, Any] | bytes
Semantic: TypeAlias = Mapping[str, Any] | bool | None
Scope: TypeAlias = Literal["all", "this device"]

_log = logging.getLogger("recado.client")
_encode = msgspec.json.Encoder().encode
_PLAIN = (str, int, bool)
_PAGE = 1_000


def connect(
    url: str | None = None,
    *,
    user: str | None = None,
    device: str | None = None,
    state: str | Path | None = None,
    existing: Existing = "recover",
    on_cancelled: OnCancelled = "resubscribe",
    outbox: int = 10_000,
    in_flight: int = 1_024,
    window: int = 1_024,
    timeout: float | None = 30.0,
    first_wait: float = 0.2,
    longest_wait: float = 30.0,
    keepalive: float = 30.0,
    on_state: Callable[[str, str], None] | None = None,
    on_gap: Callable[[Gap], None] | None = None,
    on_cancel: Callable[[str, str, str], None] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Client:
    """A client for ``async with``, which connects when it is entered.

    An AddressError is raised if the address cannot be read, a ClientError if the state file cannot.

    - ``url``: the service, such as ``recado://ana@localhost:7230``; without one, the environment variable RECADO_URL or
      the selected context says where it is, else it is the one on this machine.
    - ``user``: who to be where no token says it; else the URL's user, else the login name.
    - ``device``: its name; the same name elsewhere takes the session over. Else the URL's, the state file's, or a
      random one.
    - ``state``: a file in which the device keeps its name, what it has seen and its subscriptions; with it the program
      may be killed and go on.
    - ``existing``: what the first connection does about the subscriptions that the service holds: look after them
      (``recover``), cancel them (``discard``), look after those of this program only (``leave``).
    - ``on_cancelled``: what is done about a subscription that expired: ``renew``, ``resubscribe``, ``ignore`` or
      ``callback``.
    - ``outbox``: how many requests may wait while there is no connection; the oldest are dropped. 0 refuses them.
    - ``in_flight``: how many publications may be unanswered.
    - ``window``: how many notifications may be here and not acknowledged.
    - ``timeout``: seconds for the first connection; 0 makes one attempt, None waits for ever.
    - ``first_wait``, ``longest_wait``: the pause in seconds before connecting again is drawn from 0 to a bound that
      doubles from the first to the longest; it is at most half as long as there has been no connection.
    - ``keepalive``: after so many seconds of silence the service is asked, and after twice as many given up.
    - ``on_state(state, reason)``: called with CONNECTED, DISCONNECTED or ENDED, and why.
    - ``on_gap(gap)``: called when the service dropped notifications.
    - ``on_cancel(id, reason, action)``: called when a subscription went away, with what the client does about it.
    - ``tls``: how to check the service's certificate; else as the system does.
    """
    target = resolve(url)
    user = user or target.user or ("" if target.token else getpass.getuser())
    state_file = StateFile(Path(state)) if state is not None else None
    device = device or target.device or (state_file.device if state_file else "")
    random_device = not device and state_file is None
    device = device or f"d-{secrets.token_hex(8)}"
    if state_file is not None:
        state_file.device = device
    return Client(
        Options(
            target=msgspec.structs.replace(target, user=user),
            device=device,
            random_device=random_device,
            state=state_file,
            existing=existing,
            on_cancelled=on_cancelled,
            outbox=outbox,
            in_flight=in_flight,
            window=window,
            timeout=timeout,
            first_wait=first_wait,
            longest_wait=longest_wait,
            keepalive=keepalive,
            on_state=on_state,
            on_gap=on_gap,
            on_cancel=on_cancel,
            tls=tls,
        )
    )


class Client:
    """One session of one device with the service. ``recado.connect`` makes it; use it with ``async with``.

    When the connection breaks, it connects again, sends again what was not answered, and hands out what it missed,
    once. Entering raises Unreachable if no service answers, NotAllowed or Refused if it does not let this user in.
    Once the session is over, every method that talks to the service raises why: SessionEnded, NotAllowed or Refused.
    """

    def __init__(self, options: Options, transport: Transport | None = None) -> None:
        self.options = options
        self._session = Session(options, transport)
        self._ids = _event_ids()

    async def __aenter__(self) -> Self:
        await self._session.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(finish=error is None)

    async def close(self, *, finish: bool = True, drain: float = 5.0, forget: bool | None = None) -> None:
        """End the session: wait for answers (at most ``drain`` seconds), end what is not durable, say good-bye.

        With ``finish`` the notifications that loops have in hand are acknowledged. With ``forget`` the device does not
        come back: where every device has a mailbox of its own, the service gives it up. Without a word about it that
        is so for a device whose name was drawn at random. A second time does nothing.
        """
        forget = self.options.random_device if forget is None else forget
        await self._session.close(finish=finish, drain=drain, forget=forget)

    # -- how it stands

    @property
    def user(self) -> str:
        """Who this is; after the connection, as the service says it."""
        return self._session.user

    @property
    def device(self) -> str:
        """The name of this device."""
        return self._session.device

    @property
    def state(self) -> Literal["CONNECTED", "DISCONNECTED", "ENDED"]:
        """DISCONNECTED is passing: the client connects again. ENDED is final."""
        return self._session.state

    @property
    def pending(self) -> int:
        """Notifications that are here and not acknowledged."""
        return self._session.pending

    @property
    def unclaimed(self) -> int:
        """Those of them that no subscription of this program asks for; ``follow`` takes them."""
        return self._session.inboxes.unclaimed

    @property
    def delivered(self) -> int:
        """Notifications that the application is done with."""
        return self._session.delivered

    @property
    def repeated(self) -> int:
        """Notifications that came again and were not handed out again."""
        return self._session.repeated

    @property
    def dropped(self) -> int:
        """Notifications that the service dropped and told about."""
        return self._session.dropped

    @property
    def gaps(self) -> list[Gap]:
        """What the service told about them: how many, which, why."""
        return self._session.gaps

    @property
    def unanswered(self) -> int:
        """Requests that the service has not answered."""
        return self._session.unanswered

    @property
    def given_up(self) -> int:
        """Requests that were dropped from a full outbox."""
        return self._session.given_up

    # -- publish

    async def publish(self, what: Publishable, attributes: Mapping[str, Any] | None = None) -> int:
        """Publish one event; its position in the log, when it is on stable storage.

        ``what`` is an event type, with ``attributes``; or an Event, the members of an event in the flat form or as a
        CloudEvent, or either as JSON. An event without an id gets one: it makes the event the same one if it has to be
        sent again, so a broken connection neither loses nor doubles it.

        Raises EventError if it is not an event, Refused or NotAllowed if the service does not take it, Dropped if the
        outbox or the end of the session dropped it: then nobody knows whether the service has it.
        """
        if self._session.is_full:
            await self._session.room()
        return await self.publish_soon(what, attributes)

    def publish_soon(self, what: Publishable, attributes: Mapping[str, Any] | None = None) -> asyncio.Future[int]:
        """The same without waiting: a future of the position. TooManyInFlight if ``in_flight`` are unanswered."""
        self._session.check_room()
        return self._session.publish(_add_trace(_encode_event(what, attributes, self._ids)))

    async def publish_all(self, events: Iterable[Publishable]) -> list[int]:
        """Publish many, ``in_flight`` at a time, in order; their positions."""
        futures = []
        for event in events:
            if self._session.is_full:
                await self._session.room()
            futures.append(self.publish_soon(event))
        return list(await asyncio.gather(*futures))

    async def room(self) -> None:
        """Wait until ``publish_soon`` may be called again."""
        await self._session.room()

    async def flush(self) -> None:
        """Wait until the service has answered everything that was published."""
        await self._session.flush()

    # -- subscribe

    def subscribe(
        self,
        filter: str | None = None,
        *,
        type: str | None = None,
        id: str | None = None,
        constraints: Iterable[Mapping[str, Any]] = (),
        ttl: float | None = None,
        expires_at: str | None = None,
        scope: Scope | None = None,
        semantic: Semantic = None,
        filters: Iterable[Mapping[str, Any]] = (),
        syntax: Syntax | None = None,
        webhook: Mapping[str, Any] | None = None,
        auto_ack: bool = True,
    ) -> ClientSubscription:
        """Make a subscription; iterate over what it returns.

        With an ``id`` it is durable: it outlives this client, until it expires, and the same call takes it up again,
        with everything that came meanwhile. Without one it ends with the client and is for this device only.

        - ``filter``: what events must be like, such as ``Price < 25``; without one, every event.
        - ``type``: only events of this type, or pattern of types.
        - ``constraints``: when and how often to deliver (docs/delivery-constraints.md).
        - ``ttl``, ``expires_at``: seconds, or an instant, after which the service forgets it. The client renews what
          has a ``ttl``.
        - ``scope``: which devices of the user get its notifications.
        - ``semantic``: match names by meaning; True for the service's defaults (docs/semantics.md).
        - ``filters``: instead of a ``filter``, filters of the CloudEvents Subscriptions API.
        - ``syntax``: how ``filter`` is written, where its first character does not tell: ``cesql``.
        - ``webhook``: POST the notifications to a URL instead of bringing them here (docs/webhooks.md).
        - ``auto_ack``: acknowledge a notification when the loop asks for the next one; else ``Notification.ack`` does.

        A filter that the service does not accept raises Refused where the subscription is first awaited, one that is no
        text (a lone surrogate) a SubscriptionError at once.
        """
        durable = id is not None
        name = id if id is not None else f"{self._session.inboxes.ephemeral_prefix}{next(self._ids)}"
        record = {
            "id": name,
            "filter": filter,
            "type": type,
            "constraints": [dict(one) for one in constraints] or None,
            "ttl": ttl,
            "expires_at": expires_at,
            "scope": scope or ("all" if durable else "this device"),
            "semantic": _semantic_member(semantic),
            "filters": [dict(one) for one in filters] or None,
            "syntax": syntax,
            "webhook": None if webhook is None else dict(webhook),
        }
        _check_text(record)
        confirmed = self._session.request(words.MakeSubscription, _without_none(record))
        return self._session.add_subscription(name, durable=durable, auto_ack=auto_ack, confirmed=confirmed)

    def follow(self, id: str | None = None, *, auto_ack: bool = True) -> ClientSubscription:
        """Notifications of a subscription that the service holds already; without an id, of all that nobody takes."""
        return self._session.add_subscription(id or "", durable=True, auto_ack=auto_ack)

    async def subscriptions(self) -> list[dict[str, Any]]:
        """What the service holds for this user."""
        answer = await self._session.request(words.ListSubscriptions)
        return list(answer.subs)

    async def renew(self, id: str, *, ttl: float | None = None, expires_at: str | None = None) -> str:
        """Extend a subscription; until when it is granted now. Refused if the service does not know it."""
        return await self._session.renew(id, ttl, expires_at)

    async def cancel(self, id: str) -> None:
        """End a subscription; what came before can still be taken."""
        await self._session.cancel(id)

    async def discard(self) -> None:
        """End all subscriptions of this user that are not for another device, and empty the mailbox."""
        await self._session.request(words.DiscardSubscriptions)

    # -- the log

    async def replay(
        self,
        filter: str | None = None,
        *,
        type: str | None = None,
        position: int | None = None,
        since: str | None = None,
        limit: int | None = None,
        semantic: Semantic = None,
        on_damage: Callable[[str], None] | None = None,
    ) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """Events of the log that pass a filter, from a position or an instant on: (position, members).

        It asks for a page at a time, so a slow reader holds nothing up, and ends where the log ends. ``on_damage`` is
        told of positions that the service could not read; without it they are logged as a warning.
        """
        tell = on_damage or _log.warning
        members = {"id": "replay", "filter": filter or None, "type": type or None}
        record = _without_none({**members, "semantic": _semantic_member(semantic)})
        left = limit
        while left is None or left > 0:
            page = _PAGE if left is None else min(_PAGE, left)
            events, damage = await self._session.replay(record, position, since, page)
            for text in damage:
                tell(f"the replay is not whole: {text}")
            for one in events:
                yield one.position, msgspec.json.decode(one.event)
            if len(events) < page:
                return
            position, since = events[-1].position + 1, None
            left = None if left is None else left - len(events)


def _check_text(record: dict[str, Any]) -> None:
    for name, value in record.items():
        try:
            _encode(value)
        except UnicodeEncodeError as error:
            raise SubscriptionError(f"$.{name}: has a lone surrogate at character {error.start + 1}") from None


def _without_none(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


def _semantic_member(semantic: Semantic) -> dict[str, Any] | None:
    """The member of a record; True means the defaults of the service."""
    if semantic is None or semantic is False:
        return None
    return {} if semantic is True else dict(semantic)


# --- what is published, as the JSON that is sent ---------------------------------------------------------------------


def _event_ids() -> Iterator[str]:
    """Names for events that nobody else draws: a random one for the run, and a number."""
    run = secrets.token_hex(8)
    return (f"{run}-{number}" for number in count(1))


def _encode_event(what: Publishable, attributes: Mapping[str, Any] | None, ids: Iterator[str]) -> bytes:
    """One event as JSON, as ``Client.publish`` takes it; an EventError if it cannot be one."""
    if isinstance(what, str):
        return _encode_flat({"id": next(ids), "type": what, **(attributes or {})})
    if attributes is not None:
        raise EventError("attributes go with a type, as in publish('Tick', {'Price': 24.9})")
    if isinstance(what, Event):
        return write_flat(what if what.id else msgspec.structs.replace(what, id=next(ids)))
    if isinstance(what, bytes):
        return write_flat(read_event(what, default_id=next(ids)))
    return _encode_flat(dict(what) if what.get("id") else {**what, "id": next(ids)})


def _add_trace(event: bytes) -> bytes:
    """Within a span of OpenTelemetry, the event names it, unless it names one already."""
    otel = sys.modules.get("opentelemetry.trace")  # whoever uses it has imported it
    if otel is None or not (context := otel.get_current_span().get_span_context()).is_valid:
        return event
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    return write_flat(with_trace(read_event(event), parent, context.trace_state.to_header()))


def _encode_flat(members: dict[str, Any]) -> bytes:
    """Plain members are sent as they are, since the service checks them anyway; others are checked and spelt here."""
    for value in members.values():
        kind = type(value)
        if kind not in _PLAIN and not (kind is float and isfinite(value)):
            if "specversion" in members:
                read_event(members)
                return _encode(members)
            return write_flat(read_event(members))
    try:
        return _encode(members)
    except UnicodeEncodeError:
        return write_flat(read_event(members))  # says which of them has a lone surrogate
