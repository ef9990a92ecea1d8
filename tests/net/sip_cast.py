"""Who plays in the tests of SIP on real sockets: an agent, a broker that answers, and waiting for events."""

import asyncio
from random import SystemRandom

from protocols.sip.world import request
from recado.net.sip import open_endpoint
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.events import AgentSettings, Incoming
from recado.protocols.sip.limits import LAB
from recado.protocols.sip.sdp import Media
from recado.protocols.sip.uri import Address


class Player:
    """A user agent on real sockets that keeps what it is told."""

    def __init__(self):
        self.events, self.endpoint, self.answers, self._news = [], None, True, asyncio.Event()
        self._rng = SystemRandom()

    async def open(self, user, host="127.0.0.1", *, home=None, transport="udp", guard=None, **settings):
        made = AgentSettings(
            user=user, device=settings.pop("device", "d1"), home=home, timers=settings.pop("timers", LAB), **settings
        )
        self.endpoint = await open_endpoint(
            lambda local: UserAgent(made, local, guard), Address(transport, host, 0), self._told, tcp=transport == "tcp"
        )
        return self

    @property
    def local(self):
        return self.endpoint.local

    @property
    def agent(self):
        return self.endpoint.machine

    def media(self, connection=7):
        return Media(host=self.local.host, port=17_000, connection=connection, device=self.agent.settings.device)

    def do(self, name, *arguments):
        asked, call = request(self._rng, name, *arguments)
        self.endpoint.ask(asked)
        return call

    def _told(self, event):
        self.events.append(event)
        if isinstance(event, Incoming) and self.answers:
            self.do("answer", event.call, self.media())
        self._news.set()

    async def until(self, kind, count=1, seconds=60):
        async with asyncio.timeout(seconds):
            while len(found := [one for one in self.events if isinstance(one, kind)]) < count:
                self._news.clear()
                await self._news.wait()
        return found[count - 1]

    async def close(self):
        await self.endpoint.close()
