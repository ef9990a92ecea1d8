"""The session behind a client: its life, its counts, its requests, and what the agent tells.

``Client`` adds what an application does with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

from recado.client.driver import Driver
from recado.client.errors import ClientError, Dropped, SessionEnded, Unreachable, refusal
from recado.client.events import ids
from recado.client.inboxes import Inboxes
from recado.client.line import Line
from recado.client.options import Options, make_line
from recado.protocols.session import agent_words as words
from recado.protocols.session import messages as m
from recado.protocols.session.agent import Agent
from recado.protocols.session.agent_words import AgentError

_log = logging.getLogger("recado.client")


class ClientSession:
    """Entered and left with ``async with``.

    ``delivered`` counts the notifications that the application is done with, ``pending`` those that are here and not
    acknowledged, ``dropped`` those that the service dropped and told about; ``unanswered`` requests wait for the
    service, and ``given_up`` ones were dropped from the outbox.
    """

    def __init__(self, options: Options, line: Line | None = None) -> None:
        self.options = options
        self.device = options.device
        self.user = options.target.user
        self.delivered = 0
        self.dropped = 0
        self.gaps: list[m.Gap] = []
        self.inboxes = Inboxes(f"tmp-{options.device}-")
        self._line = line
        self._ids = ids()
        self._open: dict[int, None] = {}
        self._taken: list[int] = []
        self._publishing = 0
        self._room: list[asyncio.Future[None]] = []
        self._ended: ClientError | None = None
        self._closing = False

    # -- life

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()
        line = self._line or make_line(self.options)
        self._agent = Agent(self.options.agent(line.greets))
        self._driver = Driver(self._agent, line, self, self.options.state)
        self._driver.start()
        try:
            async with asyncio.timeout(self.options.timeout or None):
                await self._started
        except TimeoutError:
            await self._driver.close()
            raise Unreachable(self._not_reached()) from None
        except BaseException:
            await self._driver.close()
            raise
        return self

    def _not_reached(self) -> str:
        where, why = self.options.target.shown(), self._driver.last_problem or "nothing answers"
        if self._agent.status == "CONNECTED":
            return f"the event service at {where} answers, but is still loading what it holds; try again in a moment"
        return f"no event service at {where} ({why}); start one with: recado serve"

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(finish=error is None)

    async def close(self, *, finish: bool = True, drain: float = 5.0) -> None:
        """End the session: wait for answers (at most ``drain`` seconds), end what is not durable, say good-bye."""
        if self._closing:
            return
        self._closing = True
        if finish:
            self.inboxes.finish()
        if self._ended is None:
            with suppress(TimeoutError, ClientError):
                async with asyncio.timeout(drain if finish else min(drain, 1.0)):
                    await self._wind_up()
            self._report_taken()
            self._driver.ask(words.Leave())
        await self._driver.close()

    async def _wind_up(self) -> None:
        if self.state == "CONNECTED":
            ephemeral = self.inboxes.ephemeral()
            cancelled = [self._request(words.CancelSubscription, sub_id) for sub_id in ephemeral]
            await asyncio.gather(*cancelled, return_exceptions=True)
            await self.flush()

    async def flush(self) -> None:
        """Wait until the service has answered everything that was published."""
        while self._publishing and self._ended is None:
            await self._wait_for_room()

    # -- how it stands

    @property
    def state(self) -> Literal["CONNECTED", "DISCONNECTED", "ENDED"]:
        return "ENDED" if self._ended is not None else self._agent.status

    @property
    def pending(self) -> int:
        return len(self._open)

    @property
    def unanswered(self) -> int:
        return len(self._agent.outbox.waiting)

    @property
    def given_up(self) -> int:
        return self._agent.outbox.dropped

    @property
    def repeated(self) -> int:
        """Notifications that came again and were not handed out again."""
        return self._agent.inbox.repeated

    # -- requests

    def _request(self, kind: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """Ask the agent for something that is answered once."""
        self._check_open()
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(_retrieved)
        fields = kind.__struct_fields__[: len(arguments)]  # type: ignore[attr-defined]  # all requests are Structs
        self._ask(kind(**dict(zip(fields, arguments, strict=True)), ref=(future,)))
        return future

    def _ask(self, request: Any) -> None:
        try:
            self._driver.ask(request)
        except AgentError as error:
            raise Unreachable(str(error)) from None

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _published(self) -> None:
        """One publication less is unanswered."""
        self._publishing -= 1
        if self._room:
            waiters, self._room = self._room, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def _wait_for_room(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._room.append(waiter)
        await waiter

    # -- acknowledgements

    def took(self, nid: int) -> bool:
        """The application is done with a notification; was it open?"""
        if nid not in self._open:
            return False
        self.delivered += 1
        self.let_go(nid)
        return True

    def let_go(self, nid: int) -> None:
        """Confirm it, whether the application had it or nobody wants it any more."""
        self._open.pop(nid, None)
        if not self._taken:
            self._loop.call_soon(self._report_taken)
        self._taken.append(nid)

    def _report_taken(self) -> None:
        if self._taken:
            taken, self._taken = self._taken, []
            self._driver.ask(words.Took(taken))

    # -- what the agent tells

    def notified(self, notify: m.Notify) -> None:
        if self.inboxes.put(notify):
            self._open[notify.nid] = None
        else:
            self.let_go(notify.nid)

    def answered(self, ref: Any, answer: words.Answer) -> None:
        """The ref of a publication is its future; that of any other request has the future in a tuple."""
        if type(ref) is tuple:
            future = ref[0]
        else:
            future = ref
            self._published()
        if future.done():
            return
        if isinstance(answer, m.Error):
            future.set_exception(refusal(answer.code, answer.text))
        elif isinstance(answer, m.Ok) and answer.position is not None:
            future.set_result(answer.position)
        else:
            future.set_result(answer)

    def _gave_up(self, ref: Any, reason: str) -> None:
        if type(ref) is tuple:
            future = ref[0]
        else:
            future = ref
            self._published()
        if not future.done():
            future.set_exception(Dropped(reason))

    def told(self, fact: Any) -> None:
        match fact:
            case words.Streamed((_, events), replayed):
                events.append(replayed)
            case words.Connected(_, welcome):
                self._connected(welcome)
            case words.Started(sub_ids):
                self._tidy(sub_ids)
                self._begun()
            case words.Disconnected(reason):
                self._disconnected(reason)
            case words.Ended(reason, code):
                self._end(reason, code)
            case words.Dropped(ref, reason):
                self._gave_up(ref, reason)
            case words.BegunAnew(reason):
                _log.warning("%s: this device begins anew, and notifications may come a second time", reason)
            case words.Crowded(sub_id, held):
                _log.warning("nobody reads subscription %s: %d notifications of it hold up all others", sub_id, held)
            case words.GapFound(gap):
                self._gap(gap)
            case words.Cancelled(sub_id, reason, action):
                self._cancelled(sub_id, reason, action)
            case words.RenewalRefused(sub_id, _, text):
                self._cancelled(sub_id, f"it could not be renewed: {text}", "none")

    def _connected(self, welcome: m.Welcome | None) -> None:
        if welcome is not None:
            wanted, self.user, self.device = self.options.target.user, welcome.user, welcome.device
            if wanted not in ("", welcome.user):
                self._end(f"the token is that of {welcome.user!r}, not of {wanted!r}; name no user beside it", 403)
                self._driver.ask(words.Leave())
                return
        self._tell(self.options.on_state, "CONNECTED", "")
        if self._agent.begun:
            self._begun()

    def _begun(self) -> None:
        if not self._started.done():
            self._started.set_result(None)

    def _tidy(self, sub_ids: Iterable[str]) -> None:
        """Subscriptions of an earlier run of this device that was killed: nobody will ask for them again."""
        for sub_id in sub_ids:
            if sub_id.startswith(self.inboxes.ephemeral_prefix):
                self._request(words.CancelSubscription, sub_id)

    def _disconnected(self, reason: str) -> None:
        problem = self._driver.last_problem or reason
        _log.info("not connected: %s", problem)
        self._tell(self.options.on_state, "DISCONNECTED", problem)
        if not self._started.done() and (self.options.timeout == 0 or self._driver.hopeless):
            self._started.set_exception(Unreachable(self._not_reached()))

    def _end(self, reason: str, code: int) -> None:
        error = refusal(code, reason) if code else SessionEnded(f"the session is over: {reason}")
        if self._ended is not None:
            return
        self._ended = error
        if not self._started.done():
            self._started.set_exception(error)
        self.inboxes.end_all(None if self._closing else error)
        for waiter in self._room:
            if not waiter.done():
                waiter.set_result(None)
        self._tell(self.options.on_state, "ENDED", reason)

    def _gap(self, gap: m.Gap) -> None:
        self.dropped += gap.count
        self.gaps.append(gap)
        _log.warning("the service dropped %d notifications (%s)", gap.count, gap.reason)
        self._tell(self.options.on_gap, gap)

    def _cancelled(self, sub_id: str, reason: str, action: str) -> None:
        _log.warning("subscription %s was cancelled (%s); next: %s", sub_id, reason, action)
        if action == "none":
            self.inboxes.cancelled(sub_id, reason)
        self._tell(self.options.on_cancel, sub_id, reason, action)

    def _tell(self, listener: Callable[..., None] | None, *arguments: Any) -> None:
        if listener is not None:
            try:
                listener(*arguments)
            except Exception:  # noqa: BLE001  # the application's own; the session goes on
                _log.exception("%s failed", getattr(listener, "__name__", "a listener"))


def _retrieved(future: asyncio.Future[Any]) -> None:
    """Whoever does not await an answer is not told about it again when the loop ends."""
    if not future.cancelled():
        future.exception()
