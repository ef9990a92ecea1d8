"""The application of the mobility work, whole: users, devices, moves, constraints and kill -9, on the real service.

Ana has a phone, which comes by SIP and changes its address, and a laptop, which comes by WebSocket, says good-bye and
comes back. Ben has a tablet and constraints. While events flow, the service is killed again and again. With a mailbox
for every device each device of Ana's hears of everything; with one for all of them, together they do.
"""

from __future__ import annotations

import asyncio

import pytest

import recado.client as recado
from client.service import eventually
from crash.services import Service
from peers.ports import free_port
from recado.client.client import Client, connect
from recado.client.transports.sip import SipTransport

QUICK = {"first_wait": 0.02, "longest_wait": 0.3, "timeout": 60.0, "keepalive": 1.0}
HOURLY = [{"kind": "frequency", "amount": 1, "unit": "hours"}]
LONG_AGO = [{"kind": "absolute", "from": "2001-01-01T00:00:00Z", "to": "2001-01-02T00:00:00Z"}]
PHASE = 15


class Device:
    """One that takes what comes and remembers the numbers."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.heard: dict[str, list[int]] = {name: [] for name in names}
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self, client: Client, **records) -> None:
        for name in self.names:
            subscription = await client.subscribe(type="Tick", id=name, ttl=3_600, **records.get(name, {})).ready()
            self._tasks.append(asyncio.create_task(self._take(name, subscription)))

    async def _take(self, name, subscription) -> None:
        async for one in subscription:
            self.heard[name].append(one["n"])

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()


def phone_of(address: str) -> tuple[Client, SipTransport]:
    url = f"recado+sip://ana@localhost;registrar={address};profile=lab"
    options = connect(url, device="phone", **QUICK).options
    line = SipTransport(options.target, options.device, poll_seconds=0.05)
    line.host = "127.0.0.2"
    return Client(options, line), line


class Story:
    def __init__(self, service: Service, sip: str, state, *, per_device: bool) -> None:
        self.service, self.sip, self.state, self.per_device = service, sip, state, per_device
        self.phone, self.laptop = Device("all"), Device("all")
        self.tablet = Device("hourly", "long-ago")
        self.published = 0

    async def publish(self, exchange, count=PHASE) -> None:
        for _ in range(count):
            await exchange.publish({"id": f"e-{self.published}", "type": "Tick", "n": self.published})
            self.published += 1

    async def kill(self) -> None:
        await asyncio.to_thread(self.service.kill)
        await asyncio.to_thread(self.service.start)

    def connect_laptop(self) -> Client:
        return recado.connect(self.service.url("ana"), state=self.state, device="laptop", **QUICK)

    async def tell(self) -> None:
        client, line = phone_of(self.sip)
        async with (
            client as phone,
            recado.connect(self.service.url("ben"), device="tablet", **QUICK) as tablet,
            recado.connect(self.service.url("exchange"), device="exchange", **QUICK) as exchange,
        ):
            await self.phone.begin(phone)
            await self.tablet.begin(tablet, hourly={"constraints": HOURLY}, **{"long-ago": {"constraints": LONG_AGO}})
            async with self.connect_laptop() as laptop:
                await self.laptop.begin(laptop)
                await self.publish(exchange)
                line.host = "127.0.0.3"  # the phone moves
                await self.publish(exchange)
                await self.kill()
                await self.publish(exchange)
                await self.laptop.end()
            await self.publish(exchange)  # the laptop has said good-bye
            await self.kill()
            line.host = "127.0.0.4"
            await self.publish(exchange)
            async with self.connect_laptop() as laptop:
                await self.laptop.begin(laptop)
                publishing = asyncio.create_task(self.publish(exchange))
                await self.kill()  # while it drains its mailbox and more comes
                await publishing
                await self.publish(exchange)
                await self.settle()
                await self.laptop.end()
            assert (phone.gaps, tablet.gaps, laptop.gaps) == ([], [], [])
            assert line.handovers == 2
            for device in (self.phone, self.tablet):
                await device.end()

    async def settle(self) -> None:
        """Until everything is where it must be."""
        phone, laptop = self.phone.heard["all"], self.laptop.heard["all"]
        if self.per_device:
            await eventually(lambda: len(phone) >= self.published and len(laptop) >= self.published, 60)
        else:
            await eventually(lambda: len({*phone, *laptop}) >= self.published, 60)


@pytest.mark.parametrize("per_device", [False, True], ids=["one mailbox", "a mailbox for every device"])
def test_users_who_move_and_go_away_miss_nothing_while_the_service_is_killed(tmp_path, zygote, per_device):
    port = free_port()
    sip = {"registrar": "embedded", "port": port, "rudp_port": 0, "profile": "lab"}
    service = Service(tmp_path / "service", zygote, sip=sip, mailbox={"per_device": per_device})
    story = Story(service, f"127.0.0.1:{port}", tmp_path / "laptop.json", per_device=per_device)
    service.start()
    try:
        asyncio.run(asyncio.wait_for(story.tell(), 200))
        service.stop()
    finally:
        if service.pid:
            service.kill()
    everything = list(range(story.published))
    phone, laptop = story.phone.heard["all"], story.laptop.heard["all"]
    for heard in (phone, laptop):
        assert heard == sorted(set(heard)), "in order, and nothing twice"
    if per_device:
        assert phone == laptop == everything
    else:
        assert sorted({*phone, *laptop}) == everything
    assert story.tablet.heard == {"hourly": [0], "long-ago": []}
