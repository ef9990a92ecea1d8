"""Subscriptions in other words through the whole service: HTTP as the semantics document has it, and WebSocket."""

import logging

import msgspec
import pytest

from recado.errors import RecadoError
from recado.protocols.session import messages as m
from recado.semantics import engine as semantics_engine
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.server.config import ConfigError, make_config
from recado.server.matching import ServiceMatcher, default_settings, read_understanding
from server.running import agent, http, raw, run, serving, until
from server.test_webhooks import receiver

MEAN = {"measure": "mean"}
SALE = {"product": "book", "price": 60}


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """What people decided elsewhere is nothing to these tests."""
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "words"))


async def take(client, **members):
    return (await client.post("/v1/mailboxes/me/take", json=members)).json()["notifications"]


def test_the_document_s_operations_reach_other_words_and_survive(tmp_path):
    async def subscribe():
        async with serving(tmp_path) as server, http(server) as client:
            for text in ("{product, EQ, book; price, GT, 50}", "{product, EQ, book; sale price, GT, 50}"):
                made = await client.post("/subscriptions", json={"id": text, "subscription": text, "semantic": MEAN})
                assert made.status_code == 201
                assert made.json()["semantic"] == MEAN
            plain = {"id": "exact", "subscription": "{sale price, GT, 50}"}
            assert (await client.post("/subscriptions", json=plain)).status_code == 201
            assert (await client.post("/events", json=SALE)).status_code == 202
            assert [told["event"]["price"] for told in await take(client, wait=20)] == [60, 60]

    async def again():
        async with serving(tmp_path) as server, http(server) as client:
            await client.post("/events", json={**SALE, "price": 40})
            await client.post("/events", json={**SALE, "price": 70})
            told = []
            while len(told) < 2:  # those from before wait as well, and may come first
                told += [one for one in await take(client, wait=20) if one["event"]["price"] != 60]
            assert [one["event"]["price"] for one in told] == [70, 70]

    run(subscribe())
    run(again())


def test_a_callback_gets_the_event_that_names_things_otherwise(tmp_path):
    """The document's section 3.8: the publisher's names and values, and the identifiers in two headers."""

    async def check():
        async with (
            serving(tmp_path, webhooks={"private": True}) as server,
            http(server) as client,
            receiver() as target,
        ):
            wanted = {"subscription": "{product, EQ, book; sale price, GT, 50}", "callback": target.url}
            made = await client.post("/subscriptions", json={**wanted, "semantic": MEAN})
            assert made.status_code == 201, made.text
            await client.post("/events", json={**SALE, "price": 40})
            answer = await client.post("/events", json=SALE)
            assert answer.status_code == 202, answer.text
            await until(lambda: target.requests, 20)
            [(line, fields, body)] = target.requests
            assert line == "POST /hook?x=1 HTTP/1.1"
            assert fields["x-subscription-id"] == made.json()["id"]
            assert fields["x-notification-id"] == answer.json()["notificationId"]
            assert msgspec.json.decode(body) == {"id": answer.json()["notificationId"], **SALE}
            await until(lambda: server.gateway.metrics.webhooks_delivered == 1)

    run(check())


def test_over_a_websocket_with_the_subscriber_s_names(tmp_path):
    async def check():
        async with serving(tmp_path, semantics={"measure": "mean"}) as server, agent(server) as ana:
            await ana.subscribe(1, id="mine", filter="{sale price, GT, 50}", semantic={"rename": True})
            await ana.subscribe(2, id="plain", filter="{sale price, GT, 50}", semantic={"explain": True})
            await ana.publish(3, id="e", **SALE)
            told, why = {}, {}
            for _ in range(2):
                one = await ana.next(m.Notify)
                told[one.sub_id], why[one.sub_id] = bytes(one.event), one.why
            assert b'"sale price":60' in told["mine"]
            assert b'"price":60' in told["mine"]
            assert told["plain"] == bytes(raw({"id": "e", **SALE}))
            assert why["mine"] is None
            assert why["plain"]["measure"] == "mean(jcn, best, semcor)"
            [pair] = why["plain"]["pairs"]
            assert (pair["constraint"], pair["attribute"], pair["reason"]) == ("sale price", "price", "similar")
            assert pair["similarity"] == pytest.approx(0.767, abs=1e-3)
            refused = await ana.ask(m.Subscribe(4, raw({"filter": "x > 1", "semantic": {"measure": "no"}})), m.Error)
            assert "$.semantic.measure" in str(refused)

    run(check())


def test_a_service_that_always_understands(tmp_path):
    async def check():
        async with serving(tmp_path, semantics={"measure": "mean", "always": True}) as server, http(server) as client:
            await client.post("/subscriptions", json={"subscription": "{sale price, GT, 50}"})
            await client.post("/events", json=SALE)
            assert len(await take(client, wait=20)) == 1

    run(check())


def test_without_a_lexicon_exact_matching_goes_on(tmp_path, monkeypatch, caplog):
    async def before():
        async with serving(tmp_path) as server, http(server) as client:
            await client.post("/subscriptions", json={"id": "words", "filter": "cost > 1", "semantic": MEAN})

    async def after():
        async with serving(tmp_path) as server, http(server) as client:
            assert (await client.post("/subscriptions", json={"id": "exact", "filter": "price > 1"})).status_code == 201
            refused = await client.post("/subscriptions", json={"filter": "cost > 1", "semantic": MEAN})
            assert refused.status_code == 400
            assert "WordNet is gone" in refused.json()["detail"]
            await client.post("/events", json=SALE)
            assert [told["sub_id"] for told in await take(client, wait=20)] == ["exact"]

    def gone(*_):
        raise RecadoError("WordNet is gone")

    run(before())
    monkeypatch.setattr(semantics_engine, "load_lexicon", gone)
    with caplog.at_level(logging.ERROR, "recado.server"):
        run(after())
    assert "1 stored subscriptions by meaning get nothing for now" in caplog.text


def test_the_defaults_come_from_the_configuration():
    assert default_settings(make_config({})).threshold is None
    settings = default_settings(
        make_config({"semantics": {"measure": "feng", "threshold": 0.4, "unmatched": "ignore"}})
    )
    assert (settings.measure, settings.limit, settings.unmatched) == ("feng", 0.4, "ignore")
    with pytest.raises(ConfigError, match=r"\$\.semantics\.measure"):
        default_settings(make_config({"semantics": {"measure": "nonsense"}}))
    for member in ("overrides", "frequencies"):
        with pytest.raises(ConfigError, match=rf"\$\.semantics\.{member}: .*nowhere"):
            read_understanding(make_config({"semantics": {member: "nowhere"}}))


def test_a_cache_is_taken_if_it_was_made_by_the_same_knowledge(tmp_path, caplog):
    from recado.filters.syntax import parse_filter
    from recado.model.subscription import Subscription

    cache = SimilarityCache()
    made = Semantics(cache=cache)
    made.similarities(["price", "sale"], ["cost"])
    good, bad = tmp_path / "good", tmp_path / "bad"
    cache.save(good, made.digest)
    cache.save(bad, "another")
    for file, count in ((good, 2), (bad, 0)):
        matcher = ServiceMatcher(make_config({"semantics": {"cache": str(file), "measure": "mean"}}))
        matcher.add(Subscription("s", parse_filter("x > 1")))
        assert len(matcher.semantics.cache) == 0
        matcher.check(Subscription("s", parse_filter("x > 1"), semantic={}))
        assert len(matcher.semantics.cache) == count + 1  # and the pair that it was tried with
    assert "bad: is missing, damaged or made by other knowledge" in caplog.text
