"""Subscriptions by meaning over time: kept similarities, a lexicon that is gone and comes back, renewal, replay."""

import logging

import msgspec
import pytest

from recado.errors import RecadoError
from recado.protocols.session import messages as m
from recado.semantics import engine as semantics_engine
from recado.semantics.lexicon.information import load_lexicon
from recado.semantics.overrides import ReviewList
from recado.server import maintenance
from recado.server.matching import CACHE_FILE
from server.engine_kit import ANA, ROOT, Clock, attached, event, opened, positions, settled, story, subscribed
from server.running import agent, http, raw, run, serving

RECORD = b'{"id": "s", "filter": "{sale price, GT, 50}", "semantic": {"measure": "mean", "rename": true}, "ttl": 60}'


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "words"))


@pytest.fixture
def lexicon(monkeypatch):
    """A lexicon that a test takes away: ``lexicon.append("gone")``."""
    missing = []

    def load(data=None):
        if missing:
            raise RecadoError("WordNet is gone")
        return load_lexicon(data)

    monkeypatch.setattr(semantics_engine, "load_lexicon", load)
    return missing


@story
async def test_similarities_are_kept_over_restarts(tmp_path, caplog):
    caplog.set_level(logging.INFO, "recado.server")
    engine = await subscribed(tmp_path, record=RECORD)
    await engine.publish(ROOT, [event("e", price=60)])
    await engine.close()
    file = tmp_path / CACHE_FILE
    for harm, said in ((b"", "similarities: 2 similarities"), (b"x", "similarities: is missing, damaged or made by")):
        file.write_bytes(harm + file.read_bytes())
        caplog.clear()
        again = await opened(tmp_path)
        assert said in caplog.text
        cache = again.matcher.semantics.cache
        before = cache.misses
        await again.publish(ROOT, [event(f"again{harm}", price=70)])
        assert (cache.misses > before) is bool(harm)
        await settled(again)
        await again.close()
    assert len(await _positions(tmp_path)) == 3


async def _positions(folder):
    engine = await opened(folder)
    found = await positions(engine)
    await engine.close()
    return found


@story
async def test_a_full_disk_keeps_no_similarities_and_stops_nothing(tmp_path, caplog):
    (tmp_path / CACHE_FILE).mkdir(parents=True)
    engine = await subscribed(tmp_path, record=RECORD)
    await engine.publish(ROOT, [event("e", price=60)])
    await settled(engine)
    assert await positions(engine) == [0]
    await engine.close()
    assert "similarities are not kept" in caplog.text


@story
async def test_a_renewal_without_a_lexicon_works_or_says_why_not(tmp_path, lexicon):
    clock = Clock()
    await (await subscribed(tmp_path, clock, record=RECORD)).close()
    lexicon.append("gone")
    engine = await opened(tmp_path, clock)
    await engine.subscribe(ANA, b'{"id": "exact", "filter": "price > 1"}', "phone")
    assert (await engine.renew(ANA, "s", ttl=90)).id == "s"  # it only lives longer
    clock.pass_(100)
    await engine.publish(ROOT, [event("e", price=60)])  # it has expired meanwhile
    await settled(engine)
    with pytest.raises(RecadoError, match="cannot be used here: WordNet is gone"):
        await engine.renew(ANA, "s", ttl=90)
    assert [held.id for held in engine.subscriptions(ANA)] == ["exact"]
    assert len(await positions(engine)) == 1
    lexicon.clear()
    assert (await engine.renew(ANA, "s", ttl=90)).id == "s"
    await engine.publish(ROOT, [event("f", price=60)])
    await settled(engine)
    assert await positions(engine) == [0, 1, 1]
    await engine.close()


@story
async def test_what_a_missing_lexicon_left_out_comes_back(tmp_path, lexicon):
    engine = await subscribed(tmp_path, record=RECORD)
    await engine.subscribe(ANA, RECORD.replace(b'"s"', b'"unwanted"'), "phone")
    await engine.close()
    lexicon.append("gone")
    engine = await opened(tmp_path)
    [trouble] = engine.status()["trouble"]
    assert "2 stored subscriptions by meaning get nothing for now: $.semantic: cannot be used here: WordNet" in trouble
    await engine.cancel(ANA, "unwanted")
    assert "1 stored" in engine.status()["trouble"][0]
    await engine.maintenance._maintain_matcher(maintenance.RETRY_EVERY)
    await engine.publish(ROOT, [event("missed", price=60)])
    lexicon.clear()
    await engine.maintenance._maintain_matcher(maintenance.RETRY_EVERY)
    assert engine.status()["trouble"] == []
    await engine.publish(ROOT, [event("seen", price=60)])
    consumer = await attached(engine)
    assert consumer.ids == ["seen"]
    await engine.close()


def test_a_replay_gives_what_was_delivered(tmp_path):
    wanted = {"filter": "{product, EQ, book; sale price, GT, 50}", "semantic": {"measure": "mean", "rename": True}}
    events = [{"id": f"e{n}", "type": "sale", "product": "book", name: 45 + n} for n, name in enumerate(NAMES * 20)]

    async def check():
        async with serving(tmp_path) as server, http(server) as client, agent(server) as ana:
            await ana.subscribe(1, id="s", **wanted)
            await client.post("/v1/events", json=events)
            live = [await ana.next(m.Notify) for _ in range(36)]  # prices and costs above 50
            expected = [(one.nid >> 20, bytes(one.event)) for one in live]
            answer = await client.post("/v1/replay", json={"sub": wanted})
            assert [one["event"] for one in _lines(answer)] == [msgspec.json.decode(one.event) for one in live]
            query = {"filter": wanted["filter"], "semantic": '{"measure": "mean"}', "type": "sale", "limit": 3}
            answer = await client.get("/v1/replay", params=query)
            assert [one["position"] for one in _lines(answer)] == [position for position, _ in expected[:3]]
            assert "sale price" not in answer.text
            await ana.send(m.Replay(2, raw({"id": "r", **wanted}), 0, None, 100))
            replayed = [await ana.next(m.Replayed) for _ in expected]
            assert [(one.position, bytes(one.event)) for one in replayed] == expected
            answer = await client.post("/v1/replay", json={"sub": {**wanted, "semantic": {"measure": "no"}}})
            assert answer.status_code == 400
            assert "$.semantic.measure" in answer.json()["detail"]
            answer = await client.get("/v1/replay", params={"semantic": "{"})
            assert answer.status_code == 400

    run(check())


NAMES = ("price", "cost", "country")


def _lines(answer):

    return [msgspec.json.decode(line) for line in answer.text.splitlines()]


@story
async def test_uncertain_pairs_are_noted_for_people(tmp_path):
    record = b'{"id": "s", "filter": "{sale price, GT, 50}", "semantic": {"measure": "mean", "threshold": 0.75}}'
    engine = await subscribed(tmp_path, record=record, semantics={"note": True})
    await engine.publish(ROOT, [event("e", price=60, country="x")])
    await engine.close()
    [pair] = ReviewList.load().open
    assert (pair.constraint, pair.attribute, pair.threshold) == ("sale price", "price", 0.75)
    assert pair.similarity == pytest.approx(0.767, abs=1e-3)


@story
async def test_a_damaged_review_list_stops_meaning_alone(tmp_path):
    await (await subscribed(tmp_path / "data", record=RECORD)).close()
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "review.json").write_text("{")
    engine = await opened(tmp_path / "data")
    assert "the review list is damaged" in engine.status()["trouble"][0]
    with pytest.raises(RecadoError, match="repair or delete it, and start the service again"):
        await engine.subscribe(ANA, RECORD.replace(b'"s"', b'"t"'), "phone")
    await engine.subscribe(ANA, b'{"id": "exact", "filter": "price > 1"}', "phone")
    await engine.publish(ROOT, [event("e", price=60)])
    await settled(engine)
    assert await positions(engine) == [0]
    await engine.close()
