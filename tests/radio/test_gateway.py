"""A gateway between a scene of real processes and a service."""

import asyncio
import contextlib

import msgspec
import pytest

from radio.live import kill, line_scene, living, publish, replace
from recado.client import connect
from recado.client.errors import Refused, SessionEnded, Unreachable
from recado.errors import EventError, RecadoError
from recado.filters.cost import check_filter
from recado.filters.covering import covers
from recado.filters.expression import format_expression, parse
from recado.overlay.client import ask
from recado.overlay.limits import OverlayError
from recado.radio import gateway
from recado.radio.gateway import Gateway, event_of, network_filters
from recado.radio.launch import scene_folder, start
from recado.radio.scene import SceneError
from recado.server.config import make_config
from recado.server.server import Server
from recado.server.tokens import add_token


def texts(*records, types=("Sample",)):
    return [format_expression(one) for one in network_filters(records, types)]


def record(filter="", type="Sample", **more):
    return {"id": "s", "user": "ana", "scope": "all", "expires_at": "2030-01-01T00:00:00Z",
            **({"filter": filter} if filter else {}), **({"type": type} if type else {}), **more}  # fmt: skip


def test_covered_filters_are_left_out():
    (only,) = texts(record("t > 60"), record("t > 60 and h < 30"), record("t > 70"))
    assert covers(parse(only), parse('type == "Sample" and t > 60'))
    assert not covers(parse(only), parse('type == "Sample" and t > 50'))


def test_what_can_be_merged_without_taking_more_is_merged():
    assert len(texts(record("t > 60"), record("t <= 60 and t > 10"))) == 1
    assert len(texts(record("t > 60"), record("h < 5"))) == 2


def test_other_types_are_not_asked_of_the_network():
    assert texts(record("t > 1", type="Tick")) == []
    assert texts(record("t > 1 and t < 0")) == []
    assert len(texts(record("t > 1", type="Sam*"))) == 1
    assert len(texts(record("t > 1", type=""))) == 1
    assert texts(record("t > 1", type="*"), types=("Sample", "Alarm")) == ['t > 1 and type in {"Alarm", "Sample"}']


@pytest.mark.parametrize(
    "odd", [record("hops > 3"), record("heat > 1", semantic={"measure": "wordnet"}), record("(((")]
)
def test_what_the_network_cannot_decide_takes_all_of_the_type(odd):
    (only,) = texts(odd, record("t > 60"))
    assert covers(parse(only), parse('type == "Sample"'))


def test_what_is_merged_stays_short_enough_for_a_frame():
    """Many sets of values would be one filter that is longer than any node takes."""
    found = texts(*(record(f"x in {{{', '.join(map(str, range(150 * n, 150 * n + 150)))}}}") for n in range(3)))
    assert len(found) == 3
    for text in found:
        check_filter(parse(text))


def test_what_is_too_large_with_its_type_takes_all_of_the_type():
    widest = " or ".join(f"x{n} > {n}" for n in range(256))
    assert texts(record(widest)) == ['type == "Sample"']


def test_too_many_filters_of_a_type_take_all_of_it(monkeypatch):
    asked = []
    monkeypatch.setattr(gateway, "covers", lambda one, other: asked.append(1) or covers(one, other))
    many = [record(f"a{n} > {n}") for n in range(200)]
    assert texts(*many, *many, record("t > 1", type="Tick"), types=("Sample", "Tick")) == [
        'type == "Sample"',
        'type == "Tick" and t > 1',
    ]
    assert len(asked) < 4 * gateway.MOST_FILTERS**2


def test_a_filter_that_the_node_refuses_stops_no_other(tmp_path, monkeypatch):
    made = {}

    def ask_node(socket, do, **fields):
        if do == "subscribe":
            if "bad" in fields["subscription"]["filter"]:
                raise OverlayError("no")
            made[fields["subscription"]["id"]] = {"filter": fields["subscription"]["filter"]}
        elif do == "unsubscribe":
            del made[fields["id"]]
        return {"machine": {"subscriptions": dict(made)}}

    one = Gateway(tmp_path / "n0.radio", "recado://localhost:1", ("Sample",), tmp_path / "state.json")
    wanted = [record("old > 1")]
    monkeypatch.setattr(gateway, "ask", ask_node)
    monkeypatch.setattr(one, "_list", lambda: wanted)
    asyncio.run(one.synchronise())
    wanted[:] = [record("bad > 1"), record("good > 1")]
    asyncio.run(one.synchronise())
    assert sorted(one["filter"].split()[-3] for one in made.values()) == ["good", "old"]  # which ends when all is made
    wanted[:] = [record("good > 1")]
    asyncio.run(one.synchronise())
    assert [one["filter"].split()[-3] for one in made.values()] == ["good"]


def test_the_sample_keeps_its_own_attributes():
    sample = {"event": {"id": "e", "node": "mine"}, "node": "n5", "hops": 3}
    assert event_of(sample) == {"id": "e", "node": "mine", "hops": 3}
    assert event_of({**sample, "hops": None, "event": {"id": "e"}}) == {"id": "e", "node": "n5"}


class Service:
    """What a gateway publishes at: the outcome of each sample in turn, and what is stored."""

    def __init__(self, outcomes):
        self.outcomes, self.stored = list(outcomes), []

    def publish_soon(self, event):
        future = asyncio.get_running_loop().create_future()
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, EventError):
            raise outcome
        if outcome is None:
            self.stored.append(event["id"])
            future.set_result(len(self.stored))
        else:
            future.set_exception(outcome)
        return future


def carried(tmp_path, monkeypatch, *rounds):
    """A gateway that has six samples to carry, after these rounds of outcomes; what the last round raised."""

    def ask_node(socket, do, **fields):
        assert do == "samples"
        return {"start": "s", "samples": [
            {"number": n, "event": {"id": f"e{n}"}, "subscriptions": ["gateway-1"], "node": "n5", "hops": 2}
            for n in range(1, 7) if n > fields["after"]
        ]}  # fmt: skip

    monkeypatch.setattr(gateway, "ask", ask_node)
    one, stored, error = Gateway(tmp_path / "n0.radio", "recado://localhost:1", ("S",), tmp_path / "s.json"), [], None
    for outcomes in rounds:
        service, error = Service(outcomes), None
        try:
            asyncio.run(one._carry_some(service))
        except RecadoError as raised:
            error = raised
        stored.append(service.stored)
    return one, stored, error


@pytest.mark.parametrize("code", [429, 503, 507])
def test_a_service_that_is_full_or_busy_gets_the_samples_later(tmp_path, monkeypatch, code):
    later = Refused(code, "try again later")
    one, stored, error = carried(tmp_path, monkeypatch, [None, None, later, None, later, later])
    assert (one.published, one.refused, stored) == (2, 0, [["e1", "e2", "e4"]])
    assert isinstance(error, Unreachable)  # which is tried again
    assert msgspec.json.decode((tmp_path / "s.json").read_bytes())["number"] == 2
    one, stored, error = carried(tmp_path, monkeypatch, [later] * 4, [None] * 4)
    assert (one.published, one.refused, stored[1]) == (4, 0, ["e3", "e4", "e5", "e6"])
    assert error is None


def test_what_is_no_event_for_the_service_is_dropped_alone(tmp_path, monkeypatch):
    bad, large = EventError("513 attributes"), Refused(413, "too large")
    one, stored, error = carried(tmp_path, monkeypatch, [None, bad, large])
    assert (one.published, one.refused, stored, error) == (4, 2, [["e1", "e4", "e5", "e6"]], None)


def test_a_session_that_was_ended_ends_the_gateway(tmp_path, monkeypatch):
    _, _, error = carried(tmp_path, monkeypatch, [None, SessionEnded("taken over")])
    assert isinstance(error, SessionEnded)


def test_types_are_needed(tmp_path):
    with pytest.raises(SceneError, match="--type"):
        Gateway(tmp_path / "n0.radio", "recado://localhost:1", (), tmp_path / "state.json")


def configure(folder, port=0):
    return make_config({"data": str(folder), "http": {"port": port}, "logging": {"level": "warning"}})


@contextlib.asynccontextmanager
async def joined(node_folder, server, token, state):
    """A gateway that runs."""
    url = server.url.replace("://", f"://gateway:{token}@")
    gateway = Gateway(node_folder / "n0.radio", url, ("Sample",), state, 0.1)
    task = asyncio.create_task(gateway.run())
    try:
        yield gateway
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition, seconds=60):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.05)


async def log_of(url):
    async with connect(url.replace("://", "://ana@")) as client:
        return [members async for _, members in client.replay()]


def filters_of(socket):
    return list(ask(socket, "show")["machine"]["subscriptions"])


def test_subscriptions_go_down_and_samples_go_up_once(tmp_path):
    """Then the node is killed, the gateway starts again, and so does the service: nothing is lost or doubled."""
    scene = replace(line_scene(3, "gate", factor=5.0), settings={"pace_mode": "adaptive"})
    data, state = tmp_path / "data", tmp_path / "place.json"
    data.mkdir(mode=0o700)
    token = add_token(data / "tokens", "gateway", "gateway", admin=True)
    with living(scene) as client:
        asyncio.run(asyncio.wait_for(play(scene, client, data, state, token), 250))


async def play(scene, client, data, state, token):
    folder = scene_folder(scene.scene)
    socket = folder / "n0.radio"

    def sense(id, temperature):
        publish(client, "n2", id, type="Sample", temperature=temperature, humidity=20)

    async with Server.start(configure(data)) as server:
        await server.engine.when_loaded()
        port = int(server.url.rpartition(":")[2])
        async with joined(folder, server, token, state) as gateway:
            async with connect(server.url.replace("://", "://ana@")) as ana:
                hot = await ana.subscribe("temperature > 60 and humidity < 30", type="Sample", id="hot").ready()
                await ana.subscribe("temperature > 80", type="Sample", id="very").ready()
                await ana.subscribe("Price < 25", type="Tick", id="tick").ready()
                await until(lambda: len(gateway.filters) == 2)
                assert len(filters_of(socket)) == 2
                client.wait_until_quiet()
                sense("e1", 71)
                sense("cold", 11)
                async for notification in hot:
                    assert (notification.id, notification["node"], notification["hops"]) == ("e1", "n2", 2)
                    break
            kill(client, "n0")
            start(scene)
            await until(lambda: len(filters_of(socket)) == 2)
            client.forget("n0")
            client.wait_until_quiet()
            sense("e2", 72)
            await until(lambda: gateway.published == 2)
        sense("e3", 73)  # the gateway is away
        client.wait_until_quiet()
        place = msgspec.json.decode(state.read_bytes())
        assert place["number"] == 1
        state.write_bytes(msgspec.json.encode({**place, "number": 0}))  # killed before it could write it down
        async with joined(folder, server, token, state) as gateway:
            await until(lambda: gateway.published == 2)
            assert len(filters_of(socket)) == 2
        assert [one["id"] for one in await log_of(server.url)] == ["e1", "e2", "e3"]
    async with joined(folder, server, token, state):  # the service is away
        sense("e4", 74)
        client.wait_until_quiet()
        async with Server.start(configure(data, port)) as again:
            await again.engine.when_loaded()
            async with asyncio.timeout(60):
                while len(await log_of(again.url)) < 4:
                    await asyncio.sleep(0.1)
            assert len(filters_of(socket)) == 2
            async with connect(again.url.replace("://", "://ana@")) as ana:
                await ana.cancel("hot")
                await until(lambda: len(filters_of(socket)) == 1)


def test_without_an_administrators_token_it_says_what_is_missing(tmp_path):
    async def play():
        async with Server.start(configure(tmp_path / "data")) as server:
            await server.engine.when_loaded()
            gateway = Gateway(tmp_path / "n0.radio", server.url, ("Sample",), tmp_path / "s.json", 0.1)
            with pytest.raises(Exception, match="recado token add gateway --user gateway --admin"):
                await asyncio.wait_for(gateway.run(), 60)

    asyncio.run(play())
