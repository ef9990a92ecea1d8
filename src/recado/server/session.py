"""The session of a device after it was let in: its messages in, the engine's answers and notifications out.

This is the consumer that the engine sees, over a WebSocket or, as ``recado.server.sip_consumer``, over RUDP.
Publications of one frame go to the engine together and are answered when they are on stable storage; SUBSCRIBEs run
side by side, and other requests in their turn. Whatever is not yet answered is counted, and a connection with too
much of it is not read until there is less.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import msgspec

from recado.errors import RecadoError
from recado.model.codec import read_event
from recado.model.event import Event
from recado.protocols.session import messages as m
from recado.protocols.session.messages import Gap, SubCancelled
from recado.server.consumer import REVOKED, OutgoingNotification
from recado.server.gateway import Gateway
from recado.server.permissions import Denied, Principal
from recado.server.problems import status_of, text_of
from recado.server.records import instant, shown

# --- What waits to be sent on one connection, and how it becomes frames ----------------------------------------------
#
# Answers and notifications are gathered during one turn of the event loop and leave as one frame, an array of messages:
# under load that is what makes a connection fast. While the socket is full nothing is encoded. Answers are counted in
# bytes and bounded, because only this connection wants them; notifications wait as references to the events that the
# mailbox holds anyway, and their number is bounded by the window.


_encode = msgspec.json.Encoder().encode
FRAME_BYTES = 256 * 1024
"""A frame is closed when it has this much; one message alone may be larger."""
FRAME_MESSAGES = 1_000


Message: TypeAlias = bytes | OutgoingNotification | Gap | SubCancelled
"""What waits; bytes are an answer."""


class Batch(NamedTuple):
    """What leaves as one, and what is confirmed when it has arrived: the last nid in it (0: none) and the notices."""

    payload: bytes
    upto: int
    notices: list[int]


class Outgoing:
    """Messages in their order. ``send`` takes a frame; ``later`` runs a call at the end of the turn."""

    def __init__(
        self,
        send: Callable[[Batch], None],
        later: Callable[[Callable[[], None]], object],
        frame_bytes: int = FRAME_BYTES,
    ) -> None:
        self._send, self._later, self._frame_bytes = send, later, frame_bytes
        self._waiting: deque[Message] = deque()
        self._scheduled = self._paused = False
        self.answer_bytes = 0  # of what waits, notifications apart
        self.flushed: Callable[[], None] = lambda: None  # told when something was sent

    def put(self, answers: Iterable[bytes]) -> None:
        answers = list(answers)
        self.answer_bytes += sum(map(len, answers))
        self.push(answers)

    def put_first(self, answer: bytes) -> None:
        """Before everything that waits: WELCOME, which is known only when the first notifications are."""
        self._waiting.appendleft(answer)
        self.answer_bytes += len(answer)
        self.push(())

    def push(self, messages: Iterable[Message]) -> None:
        """Notifications or notices. They wait, with all that waits already, for the end of the turn."""
        self._waiting.extend(messages)
        if not self._scheduled and not self._paused and self._waiting:
            self._scheduled = True
            self._later(self.flush)

    def drop(self, answers: bool = False) -> None:
        """Forget the notifications, which are still in the mailbox; with ``answers`` these, too."""
        kept = [] if answers else [message for message in self._waiting if isinstance(message, bytes)]
        self._waiting = deque(kept)
        self.answer_bytes = sum(map(len, kept))

    def __len__(self) -> int:
        return len(self._waiting)

    def pause(self) -> None:
        """The socket is full."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self.push(())

    def flush(self) -> None:
        """Send frames until nothing waits or the socket is full."""
        self._scheduled = False
        while self._waiting and not self._paused:
            self._send(self._frame())
        self.flushed()

    def _frame(self) -> Batch:
        parts: list[bytes] = []
        notices: list[int] = []
        size = upto = 0
        while self._waiting and size < self._frame_bytes and len(parts) < FRAME_MESSAGES:
            message = self._waiting.popleft()
            if isinstance(message, bytes):
                self.answer_bytes -= len(message)
            elif isinstance(message, OutgoingNotification):
                upto = message.nid
                message = message.message()
            else:
                notices.append(message.notice)
                message = _encode(message)
            parts.append(message)
            size += len(message)
        return Batch(parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]", upto, notices)


# --- The session of a device after it was let in: its messages in, the engine's answers and notifications out --------

_log = logging.getLogger("recado.sessions")
WAITING_BYTES = 1024 * 1024
"""Publications that wait for the log, before the connection is not read any more."""
WAITING_REQUESTS = 1_024


class Session:
    """One device on one connection, a WebSocket unless a subclass says otherwise."""

    kind = "websocket"

    def __init__(
        self,
        gateway: Gateway,
        who: Principal,
        hello: m.Hello,
        *,
        address: str,
        out: Outgoing,
        end: Callable[[str], None],
    ) -> None:
        self._gateway, self._engine, self.who = gateway, gateway.engine, who
        self.device, self.address = hello.device, address
        most = gateway.config.sessions.window
        self.window = max(1, min(hello.window or most, most))
        self._out, self._end = out, end
        self.push = self.notice = out.push  # all that the engine gives leaves with the answers, in one order
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._replays: dict[asyncio.Task[None], None] = {}
        self._barrier: asyncio.Task[None] | None = None  # the last request that others wait for
        self._beside: dict[asyncio.Task[None], None] = {}  # SUBSCRIBEs since then that are not answered
        self._room: asyncio.Future[None] | None = None
        self._abandoned = False
        self._prefix, self._published = uuid4().hex, 0  # of ids for events that have none
        self.waiting_bytes = 0  # of publications that are not answered
        self.publishing = 0
        self.answered: Callable[[], None] = lambda: None  # told whenever less waits

    def begin(self, seen: int | None, log: str | None = None) -> None:
        """Be the device's consumer; WELCOME goes before what the engine sends at once."""
        welcome = self._engine.attach(self.who, self.device, self, seen, log)
        self._audit("connect", device=self.device)
        self._out.put_first(_encode(welcome))

    # -- the consumer --------------------------------------------------------------------------------------------------

    def say(self, messages: Sequence[m.FromService]) -> None:
        self._out.put([_encode(message) for message in messages])

    def close(self, reason: str) -> None:
        self._end(reason)

    def recheck(self) -> None:
        """The tokens were read again: the session goes on with the rights of now, or ends."""
        who = self._gateway.tokens.current(self.who)
        if who is None:
            self._gateway.metrics.by["sessions_closed"][REVOKED] += 1
            self._end(REVOKED)
        else:
            self.who = who

    # -- what the agent says -------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Is there so much unanswered that nothing more should be read?"""
        return self.waiting_bytes > WAITING_BYTES or len(self._tasks) > WAITING_REQUESTS

    def receive(self, frame: Sequence[m.FromAgent]) -> None:
        """The messages of one frame."""
        publications: list[m.Publish] = []
        for message in frame:
            if type(message) is m.Publish:
                publications.append(message)
                continue
            if publications:
                self._publish(publications)
                publications = []
            self._take(message)
        if publications:
            self._publish(publications)

    def _take(self, message: m.FromAgent) -> None:
        match message:
            case m.Ack(upto, notices, nids, window):
                if window is not None:
                    self._engine.resize(self, max(1, min(window, m.WIDEST * self.window)))
                if upto is not None:
                    self._engine.acknowledge(self, upto)
                if nids:
                    self._engine.acknowledge_some(self, nids)
                if notices:
                    self._engine.confirm_notices(self, notices)
            case m.Ping(req):
                self.say([m.Ok(req)])
            case m.Bye(forget):
                if forget:
                    self._audit("forget", device=self.device)
                self._engine.end(self, forget=forget)
                self._end("bye")
            case m.Hello():
                self._refuse(None, RecadoError("HELLO comes once, as the first message of a connection"))
            case m.Replay(req):
                self._begin_replay(message)
            case m.Publish():
                self._publish([message])
            case m.Subscribe(req) | m.Unsubscribe(req) | m.Renew(req) | m.QuerySubs(req) | m.DiscardSubs(req):
                task = self._start(req, self._request_in_turn(message, self._before(message)))
                if isinstance(message, m.Subscribe):
                    self._beside[task] = None
                else:
                    self._barrier = task

    def _before(self, message: m.FromAgent) -> list[asyncio.Task[None]]:
        """The requests that come first: SUBSCRIBEs go side by side, anything else waits for all, and they for it.

        Nothing waits for what another one that it waits for has waited for, so a flood of requests costs no more each.
        """
        barrier = [self._barrier] if self._barrier is not None else []
        if isinstance(message, m.Subscribe):
            return barrier
        beside, self._beside = self._beside, {}
        return [*barrier, *beside]

    async def _request_in_turn(
        self,
        message: m.Subscribe | m.Unsubscribe | m.Renew | m.QuerySubs | m.DiscardSubs,
        before: list[asyncio.Task[None]],
    ) -> m.FromService:
        if before:
            await asyncio.wait(before)
        return await self._request(message)

    async def _request(
        self, message: m.Subscribe | m.Unsubscribe | m.Renew | m.QuerySubs | m.DiscardSubs
    ) -> m.FromService:
        engine, who = self._engine, self.who
        self._gateway.check_request(who)
        match message:
            case m.Subscribe(req, sub):
                held = await self._gateway.subscribe(who, bytes(sub), self.device)
                self._audit("subscribe", subscription=held.id)
                return m.Subscribed(req, held.id, held.expires_text)
            case m.Renew(req, sub_id, expires_at, ttl):
                held = await engine.renew(who, sub_id, instant(expires_at, "expires_at"), ttl)
                self._audit("renew", subscription=sub_id)
                return m.Subscribed(req, held.id, held.expires_text)
            case m.Unsubscribe(req, sub_id):
                await engine.cancel(who, sub_id)
                self._audit("unsubscribe", subscription=sub_id)
            case m.DiscardSubs(req):
                await engine.discard(who, self.device)
                self._audit("discard", device=self.device)
            case m.QuerySubs(req):
                return await self._list(req)
        return m.Ok(message.req)

    async def _list(self, req: int) -> m.FromService:
        """The subscriptions, in as many messages as it takes; the last one is the answer."""
        for part in m.list_subs(req, (shown(held.members()) for held in self._engine.subscriptions(self.who))):
            if not part.more:
                break
            self.say([part])
            await self._room_for_answers()
        return part

    def _start(self, req: int, request: Coroutine[Any, Any, m.FromService]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._answer(req, request))
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def _audit(self, did: str, **what: Any) -> None:
        self._gateway.audit.note(self.who, self.address, self.kind, did, **what)

    async def _answer(self, req: int, request: Coroutine[Any, Any, m.FromService]) -> None:
        try:
            self.say([await request])
        except RecadoError as error:
            self._refuse(req, error)
        except Exception:  # noqa: BLE001  # the agent gets an answer, and the log the reason
            _log.exception("a request failed in a way that nobody foresaw")
            self.say([m.Error(req, 500, "the service failed; its log says why")])

    def _done(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._beside.pop(task, None)
        self.answered()

    def _refuse(self, req: int | None, error: RecadoError) -> None:
        if isinstance(error, Denied):
            self._audit("refused", status=status_of(error))
        self.say([m.Error(req, status_of(error), text_of(error))])

    # -- publish -------------------------------------------------------------------------------------------------------

    def _publish(self, publications: Sequence[m.Publish]) -> None:
        requests: list[int] = []
        events: list[Event] = []
        size = 0
        for publication in publications:
            raw = bytes(publication.event)
            try:
                self._gateway.check_publish(self.who, 1)
                self._published += 1
                default = f"{self._prefix}-{self._published}"  # a random id for each would cost more than all the rest
                events.append(read_event(raw, default_id=default, limits=self._gateway.limits))
            except RecadoError as error:
                self._refuse(publication.req, error)
            else:
                requests.append(publication.req)
                size += len(raw)
        if events:
            self._store(requests, events, size)

    def _store(self, requests: Sequence[int], events: Sequence[Event], size: int) -> None:
        self.waiting_bytes += size
        self.publishing += len(events)

        def done(result: Sequence[int] | RecadoError) -> None:
            self.waiting_bytes -= size
            self.publishing -= len(events)
            if not isinstance(result, RecadoError):
                self._audit("publish", events=len(events))
                self._out.put(
                    [
                        b'{"type":"OK","req":%d,"position":%d}' % (req, position)
                        for req, position in zip(requests, result, strict=True)
                    ]
                )
            elif len(events) > 1 and isinstance(result, Denied):
                for req, event in zip(requests, events, strict=True):  # one that is not allowed spoils no other
                    self._store([req], [event], size // len(events))
            else:
                self._audit("publish", events=len(events), status=status_of(result))
                self.say([m.Error(req, status_of(result), text_of(result)) for req in requests])
            self.answered()

        self._engine.publish_soon(self.who, events, done)

    # -- replay --------------------------------------------------------------------------------------------------------

    def _begin_replay(self, message: m.Replay) -> None:
        task = self._start(message.req, self._replay(message))
        self._replays[task] = None
        task.add_done_callback(self._replays.pop)

    async def _replay(self, message: m.Replay) -> m.FromService:
        self._gateway.check_request(self.who)
        self._audit("replay")
        since = instant(message.since, "since")
        damage: dict[str, None] = {}
        wanted = {"position": message.position, "limit": message.limit}
        replay = self._gateway.replay(self.who, bytes(message.sub), since=since, damage=damage, **wanted)
        async with aclosing(replay) as found:
            async for position, event in found:
                self._out.put(
                    [b'{"type":"REPLAYED","req":%d,"position":%d,"event":%b}' % (message.req, position, event)]
                )
                await self._room_for_answers()
        return m.Ok(message.req, damage=tuple(damage))

    async def _room_for_answers(self) -> None:
        """Whoever has much to say waits until the other side has taken what was said."""
        while self._out.answer_bytes > self._gateway.config.limits.outgoing_bytes // 2 and not self._abandoned:
            if self._room is None or self._room.done():
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)

    def sent(self) -> None:
        """The socket took something: whoever waited for room may go on."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def abandon(self) -> None:
        """The connection is gone: replays stop. Other requests end as they would have, only nobody hears of it."""
        self._abandoned = True
        self.sent()
        for task in list(self._replays):
            task.cancel()
