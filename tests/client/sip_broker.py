"""A broker of a few lines behind SIP and RUDP, with the embedded registrar."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager

from protocols.session.world import Broker
from recado.net import RudpEndpoint, new_key
from recado.net.sip import open_endpoint, open_registrar
from recado.protocols.rudp import profile
from recado.protocols.session import messages as m
from recado.protocols.sip import events
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.events import AgentSettings
from recado.protocols.sip.limits import LAB
from recado.protocols.sip.sdp import Media
from recado.protocols.sip.uri import Address

DOMAIN = "lac.example"


class SipBroker:
    """One user's session; RUDP's acknowledgement confirms a notification."""

    def __init__(self):
        self.broker = Broker(window=10**6)
        self.calls = {}
        self.updates = []

    async def restart(self):
        """As after a kill: nobody is told, and no session is known any more."""
        await self.close()
        self.calls = {}
        await self.open(self.home)

    async def open(self, home):
        self.home = home
        settings = AgentSettings(user=f"sip:broker@{DOMAIN}", device="broker", home=home, timers=LAB)
        self.rudp = RudpEndpoint(("127.0.0.1", 0), profile("lab"))
        local = Address("udp", "127.0.0.1", 0)
        self.endpoint = await open_endpoint(lambda bound: UserAgent(settings, bound), local, self.told)
        self.endpoint.ask(events.Register())

    def told(self, event):
        match event:
            case events.Incoming(call, _, _, remote):
                ours, key, theirs = self.rudp.new_conn_id(), new_key(), remote.media
                host, port = self.rudp.address
                self.calls[call] = self.rudp.open(
                    (theirs.host, theirs.port),
                    ours,
                    theirs.connection,
                    self.heard(call),
                    lambda error: None,
                    local_key=key,
                    remote_key=theirs.key,
                )
                media = Media(host=host, port=port, connection=ours, key=key, device="broker")
                self.endpoint.ask(events.Answer(call, media))
            case events.Updated(call, _, remote):
                self.updates.append(remote.media.host)
                self.calls[call].move((remote.media.host, remote.media.port))
                self.broker.sent = []
                self.push(call)
            case events.Ended(call):
                self.calls.pop(call).close()

    def heard(self, call):
        def message(frame):
            answers = self.broker.receive(m.from_agent(frame), time.time())
            self.say(call, answers)

        return message

    def say(self, call, messages):
        for message in messages:
            nid = getattr(message, "nid", None)
            self.calls[call].post(m.encode([message]), lambda error, nid=nid: self.confirmed(nid, error))

    def confirmed(self, nid, error):
        if error is None and nid is not None:
            self.broker.mail.pop(nid, None)

    def publish(self, name):
        self.broker.publish(name, time.time())
        for call, link in self.calls.items():
            if not link.failed:
                self.push(call)

    def push(self, call):
        self.say(call, self.broker.push())

    async def close(self):
        self.rudp.close()
        await self.endpoint.close()


@asynccontextmanager
async def sip_service():
    """The broker, and the URL of a user in its domain."""
    registrar = await open_registrar(Address("udp", "127.0.0.1", 0), (DOMAIN,))
    broker = SipBroker()
    await broker.open(registrar.local)
    try:
        yield broker, f"recado+sip://ana@{DOMAIN};registrar=127.0.0.1:{registrar.local.port};profile=lab"
    finally:
        await broker.close()
        await registrar.close()
