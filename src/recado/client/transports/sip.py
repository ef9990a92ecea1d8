"""A transport over SIP and RUDP: REGISTER, INVITE, data; and the hand-over when the device's address changes.

The first ``connect`` registers and invites the broker; a later one updates the session that is there (re-INVITE, also
at the same address), or opens another if the service has forgotten it (the mobility document, 3.3 and 3.4). RUDP's
failure to send is what tells that the connection is lost. A change of address is no loss: both sockets are bound anew,
what was in flight is sent again from there at once, and the session is updated while the agent knows nothing of it.

The SIP session says who the device is, so the agent does not greet.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from contextlib import suppress

from recado.client.driver import TransportListener
from recado.client.urls import SipTarget, Target
from recado.errors import RecadoError
from recado.net import RudpEndpoint, RudpLink, new_key
from recado.net.sip import (
    ADDRESS_POLL_SECONDS,
    Endpoint,
    TlsClient,
    local_address_towards,
    open_endpoint,
    watch_address,
)
from recado.protocols.rudp import QueueFull, Unreachable, profile
from recado.protocols.sip import events
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.digest import Credentials
from recado.protocols.sip.events import AgentSettings
from recado.protocols.sip.limits import LAB, SipTimers
from recado.protocols.sip.registration import Change, LinkLost, Moved
from recado.protocols.sip.sdp import Media
from recado.protocols.sip.text import SipError
from recado.protocols.sip.uri import Address

_NOT_LET_IN = (401, 403, 407)
_NO_ANSWER = 0
_GOODBYE_SECONDS = 2.0


class SipTransport:
    """``host`` is the local address to use; "" asks the system which one leads to the registrar."""

    greets = False
    frame_bytes = 32 * 1024

    def __init__(self, target: Target, device: str, *, poll_seconds: float = ADDRESS_POLL_SECONDS) -> None:
        assert target.sip is not None
        self._sip: SipTarget = target.sip
        self._user, self._password, self._device = target.user, target.token, device
        self._poll_seconds = poll_seconds
        self.host = target.sip.host
        self._home = Address(self._sip.transport, *self._sip.registrar)
        self._endpoint: Endpoint[UserAgent] | None = None
        self._rudp: RudpEndpoint | None = None
        self._link: RudpLink | None = None
        self._listener: TransportListener | None = None
        self._call = ""
        self._connection, self._key = 0, new_key()
        self._registered = self._inviting = self._connecting = self._up = False
        self._waiting: deque[bytes] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._quiet = asyncio.Event()
        self.handovers = 0

    # -- for the driver

    def connect(self, listener: TransportListener) -> None:
        self._listener, self._connecting, self._up = listener, True, False
        if self._endpoint is None:
            self._tasks.append(asyncio.get_running_loop().create_task(self._open()))
        else:
            self._reach()

    def send(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._post()

    def disconnect(self) -> None:
        """End the session; the next ``connect`` opens another."""
        self._connecting = self._up = False
        self._drop_call()

    def _drop_call(self) -> None:
        self._forget_link()
        call, self._call = self._call, ""
        if call and self._endpoint is not None:
            with suppress(SipError):
                self._endpoint.ask(events.Bye(call))

    async def close(self) -> None:
        if self._link is not None and not self._link.failed:
            with suppress(TimeoutError, Unreachable):
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await self._link.ping()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listener = None
        self.disconnect()
        if self._endpoint is not None:
            await self._say_goodbye(self._endpoint)
        if self._rudp is not None:
            self._rudp.close()

    async def _say_goodbye(self, endpoint: Endpoint[UserAgent]) -> None:
        if self._registered:
            with suppress(SipError, TimeoutError):
                endpoint.ask(events.Unregister())
                async with asyncio.timeout(_GOODBYE_SECONDS):
                    await self._quiet.wait()
        await endpoint.close()

    # -- opening

    def _probe(self) -> str | None:
        return self.host or local_address_towards(self._home)

    async def _open(self) -> None:
        try:
            await self._bind()
        except socket.gaierror as error:
            self._down(f"{self._home.host}: {error.strerror}", permanent=error.errno == socket.EAI_NONAME)
        except (OSError, RecadoError) as error:
            self._down(f"SIP cannot be used here: {error}")

    async def _bind(self) -> None:
        await asyncio.get_running_loop().getaddrinfo(self._home.host, self._home.port)  # there is such a name
        host = self._probe()
        if host is None:
            self._down(f"there is no way to the registrar {self._home}")
            return
        self._rudp = RudpEndpoint((host, 0), profile(self._sip.profile))
        self._connection = self._rudp.new_conn_id()
        settings = self._settings()
        local = Address(self._home.transport, host, 0)
        tls = None
        if self._home.transport == "tls":
            tls = TlsClient(ssl.create_default_context(cafile=self._sip.ca or None), self._home.host)
        self._endpoint = await open_endpoint(
            lambda bound: UserAgent(settings, bound), local, self._handle_event, tls=tls
        )
        self._tasks.append(asyncio.get_running_loop().create_task(self._watch(host)))
        self._endpoint.ask(events.Register())

    def _settings(self) -> AgentSettings:
        return AgentSettings(
            user=f"sip:{self._user}@{self._sip.domain}",
            device=self._device,
            home=self._home,
            credentials=Credentials(self._user, self._password) if self._password else None,
            timers=LAB if self._sip.profile == "lab" else SipTimers(t1=self._sip.t1),
        )

    def _media(self) -> Media:
        assert self._rudp is not None
        host, port = self._rudp.address[:2]
        seen, log = self._listener.last_seen() if self._listener is not None else (None, "")
        return Media(
            host=host,
            port=port,
            connection=self._connection,
            key=self._key,
            device=self._device,
            seen=seen,
            log=log or None,
            confirms=True,
        )

    def _reach(self) -> None:
        """Update the session if there is one; open one if there is none and the registrar knows us."""
        endpoint = self._endpoint
        if endpoint is None:
            return
        try:
            if self._call:
                endpoint.ask(events.Reinvite(self._call, self._media()))
            elif self._registered and not self._inviting:
                self._inviting = True
                endpoint.invite(self._sip.broker, self._media())
            elif not self._registered:
                endpoint.ask(events.Register())
        except SipError as error:
            self._down(str(error))

    # -- what SIP tells

    def _handle_event(self, event: events.Event) -> None:
        match event:
            case events.Registered():
                self._registered = True
                if self._connecting and not self._call:
                    self._reach()
            case events.RegistrationFailed(status, reason, _):
                self._registered = False
                if self._connecting:  # a session that is up does without a registrar
                    self._down(f"the registrar refused {self._user}: {status} {reason}", _code(status))
            case events.Unregistered():
                self._quiet.set()
            case events.Established(call, _, remote):
                self._inviting, self._call = False, call
                if self._connecting:
                    self._connect(remote.media)
                else:
                    self.disconnect()  # it was given up meanwhile
            case events.Updated(call, _, remote) if call == self._call:
                self._on_update(remote.media)
            case events.UpdateFailed(call, status, _, again) if call == self._call and (
                again is None or (status == _NO_ANSWER and self._connecting)  # the service may be somewhere else by now
            ):
                self._drop_call()
                self._reach_anew("the service refused the update of the session")
            case events.Failed(_, status, reason):
                self._inviting = False
                self._down(f"the service cannot be reached by SIP: {status} {reason}", _code(status))
            case events.Ended(call, reason) if call == self._call:
                self._on_end(reason)

    def _connect(self, media: Media) -> None:
        assert self._rudp is not None
        if media.connection is None:
            self._down("the service named no RUDP connection in its answer")
            return
        if media.key is None:
            self._down("the service named no key for RUDP in its answer; it is older than this client")
            return
        self._link = self._rudp.open(
            (media.host, media.port),
            self._connection,
            media.connection,
            self._receive,
            self._on_failure,
            local_key=self._key,
            remote_key=media.key,
        )
        self._greet()

    def _on_update(self, media: Media) -> None:
        if self._link is None:
            self._connect(media)
            return
        self._link.move((media.host, media.port))
        self._greet()  # also after a hand-over: the service may have given up answers while we were away

    def _greet(self) -> None:
        """Send first: a relay learns our address from what we send (section 12)."""
        if self._link is not None:
            self._tasks.append(asyncio.get_running_loop().create_task(_ping(self._link)))
        self._tasks = [task for task in self._tasks if not task.done()]
        self._connecting, self._up = False, True
        if self._listener is not None:
            self._listener.on_up()

    def _on_end(self, reason: str) -> None:
        self._call = ""
        self._forget_link()
        self._reach_anew(f"the session was ended: {reason}")

    def _reach_anew(self, reason: str) -> None:
        if self._connecting:
            self._reach()  # it had forgotten us: open another session
        else:
            self._down(reason)

    # -- data

    def _receive(self, message: bytes) -> None:
        if self._listener is not None:
            self._listener.on_frame(message)

    def _on_failure(self, error: Unreachable) -> None:
        self._waiting.clear()
        self._down(str(error))

    def _post(self) -> None:
        link = self._link
        if link is None or not self._up:
            self._waiting.clear()
            return
        try:
            while self._waiting:
                link.post(self._waiting[0], self._more)
                self._waiting.popleft()
        except QueueFull:
            pass  # an acknowledgement makes room, and comes back here
        except Unreachable:
            self._waiting.clear()

    def _more(self, error: Unreachable | None) -> None:
        if error is None and self._waiting:
            self._post()

    def _forget_link(self) -> None:
        self._waiting.clear()
        if self._link is not None:
            self._link.close()
            self._link = None
            if self._rudp is not None:
                self._connection, self._key = self._rudp.new_conn_id(), new_key()

    def _down(self, reason: str, code: int = 0, *, permanent: bool = False) -> None:
        """Tell the agent, once; its answer may be another attempt."""
        told = self._connecting or self._up
        self._connecting = self._up = False
        if told and self._listener is not None:
            self._listener.on_down(reason, code, permanent=permanent)

    # -- hand-over

    async def _watch(self, bound: str) -> None:
        await watch_address(bound, self._probe, self._on_change, poll_seconds=self._poll_seconds)

    async def _on_change(self, change: Change) -> None:
        if isinstance(change, LinkLost) or self._endpoint is None or self._rudp is None:
            return
        if isinstance(change, Moved):
            self.handovers += 1
            self._rudp.rebind((change.host, 0))
            await self._endpoint.rebind(change.host)
        if self._call:
            self._reach()
        if self._listener is not None and not self._up:
            self._listener.on_reachable()


async def _ping(link: RudpLink) -> None:
    with suppress(Unreachable, QueueFull):
        await link.ping()


def _code(status: int) -> int:
    """403 ends the agent's attempts; anything else may be otherwise in a moment."""
    return 403 if status in _NOT_LET_IN else 0
