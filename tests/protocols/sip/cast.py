"""An agent, a broker and their home server in one world (see ``world``)."""

from protocols.sip.world import World, at
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.events import AgentSettings, Incoming
from recado.protocols.sip.proxy import Proxy
from recado.protocols.sip.sdp import Media

USER, BROKER = "sip:user1@lac.example", "sip:broker@lac.example"


def media(last, connection=7, device="d1"):
    return Media(host=f"10.0.0.{last}", port=17_080, connection=connection, device=device)


class Scene(World):
    """The broker answers whatever comes, at address 1; the agent is at 7; with ``home`` a proxy at 100 is between."""

    def __init__(self, seed=1, *, home=False, guard=None, credentials=None, settings=None, **network):
        super().__init__(seed, **network)
        self.proxy = None
        if home:
            self.proxy = self.add(Proxy(at(100), ("lac.example",), b"key", guard=guard), at(100))
        server = at(100) if home else None
        more = settings or {}
        self.broker = self.add(
            UserAgent(AgentSettings(user=BROKER, device="b", home=server, credentials=credentials, **more), at(1)),
            at(1),
        )
        self.agent = self.add(
            UserAgent(
                AgentSettings(user=USER, device="d1", home=server or at(1), credentials=credentials, **more), at(7)
            ),
            at(7),
        )

    def react(self, machine, fact):
        if isinstance(fact, Incoming) and machine is self.broker:
            self.ask(machine, "answer", fact.call, media(1))

    def call(self):
        """Open a session and let the answer come."""
        name = self.ask(self.agent, "invite", BROKER, media(7))
        self.run(self.now + 1)
        return name

    def methods(self, source=None):
        """What was sent: the method, or the status."""
        return [
            data.split(b" ")[1 if data.startswith(b"SIP/") else 0].decode()
            for _, sender, _, data in self.sent
            if source is None or sender == source
        ]

    def empty(self):
        """Nothing is left of transactions and calls, and only refreshing is still due."""
        for machine in (self.agent, self.broker):
            state = machine.inspect()
            assert (state["calls"], state["clients"], state["servers"]) == ({}, {}, {})
            assert [key for key in state["timers"] if key != "register refresh"] == []
