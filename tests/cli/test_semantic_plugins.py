"""Strategies, converters and call-backs of an installed package: the library, the command, a service, Spark."""

import asyncio
import json
import logging

import msgspec
import pytest

from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.pipeline.match import match
from recado.semantics.match import callbacks
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.settings import strategies
from recado.semantics.units import converters
from server.running import http, serving, until

CODE = '''
import os

def last(similarities, limit):
    """The last attribute that is alike enough, for each name."""
    if similarities.shape[1] == 7:
        raise ValueError("seven attributes are too many")
    found = []
    for row in similarities:
        alike = [column for column, value in enumerate(row) if value > limit]
        found.append(alike[-1] if alike else -1)
    return found

def roman(name, attribute):
    return {"X": 10, "L": 50}.__getitem__ if attribute == "roman price" else None

def tell(event, subscription_id):
    with open(os.environ["RECADO_TEST_TOLD"], "a") as file:
        file.write(f"{event.id} {subscription_id}\\n")

def fail(event, subscription_id):
    raise RuntimeError("this call-back always fails")
'''
ENTRY_POINTS = """\
[recado.strategies]
last = house_words:last

[recado.converters]
broken = house_words:missing
roman = house_words:roman

[recado.callbacks]
fail = house_words:fail
tell = house_words:tell
"""
MEAN = {"measure": "mean"}
WANTED = [
    {"id": "dear", "filter": "price > 20", "semantic": {**MEAN, "rename": True}},
    {"id": "last", "filter": "price > 20", "semantic": {**MEAN, "assignment": "last", "rename": True}},
    {"id": "exact", "filter": "price > 20"},
]
EVENTS = [
    {"id": "fifty", "roman price": "L"},
    {"id": "ten", "roman price": "X"},
    {"id": "unknown", "roman price": "IX"},
    {"id": "two", "cost": 30, "total price": 5},
    {"id": "turned", "cost": 5, "total price": 30},
    {"id": "plain", "price": 25},
    {"id": "seven", "cost": 30, **dict.fromkeys(("cat", "sun", "tree", "moon", "sea", "sky"), 1)},
]  # fmt: skip
PAIRS = {
    ("fifty", "dear"), ("fifty", "last"), ("two", "dear"), ("turned", "last"), ("plain", "dear"), ("plain", "last"),
    ("plain", "exact"), ("seven", "dear"),
}  # fmt: skip
TOLD = sorted(pair for pair in PAIRS if pair[1] != "exact")


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with entry points; the file in which its call-back writes."""
    folder = tmp_path / "site"
    about = folder / "house_words-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "house_words.py").write_text(CODE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: house-words\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "words"))
    monkeypatch.setenv("RECADO_TEST_TOLD", str(tmp_path / "told"))
    monkeypatch.syspath_prepend(folder)
    for plugins in (strategies, converters, callbacks):
        monkeypatch.setattr(plugins, "_listed", None)
        monkeypatch.setattr(plugins, "_known", {})
    return folder


def told(folder):
    lines = (folder / "told").read_text().splitlines() if (folder / "told").exists() else []
    (folder / "told").unlink(missing_ok=True)
    return sorted(tuple(line.split(" ")) for line in lines)


def test_the_library_and_the_command(package, tmp_path, recado, write, caplog):
    events = [read_event(msgspec.json.encode(event)) for event in EVENTS]
    for plain in (True, False):
        matcher = SemanticMatcher(plain=plain)
        matcher.add_many(read_subscription(msgspec.json.encode(one)) for one in WANTED)
        assert {(event.id, id) for event in events for id in matcher.match(event)} == PAIRS
        assert told(tmp_path) == TOLD
        assert matcher.renamed(events[0], "dear").attributes == {"roman price": "L", "price": 50}
    many = events * 8
    assert {(event.id, id) for event, ids in zip(many, matcher.match_many(many), strict=True) for id in ids} == PAIRS
    assert told(tmp_path) == sorted(TOLD * 8)
    files = write("wanted", *map(json.dumps, WANTED)), write("events", *map(json.dumps, EVENTS))
    for engine in ("index", "batch", "naive"):
        run = recado("match", *files, "--engine", engine)
        assert {(one["event"], one["subscription"]) for one in run.records} == PAIRS
        assert told(tmp_path) == TOLD
    assert {(one["event"], one["subscription"]) for one in recado("match", *files, "--verify").records} == PAIRS
    assert told(tmp_path) == TOLD
    for text in ("the call-back fail failed", "the converter broken", "the strategy last failed"):
        assert text in caplog.text


def test_a_service(package, tmp_path, caplog):
    async def check():
        async with serving(tmp_path, 120) as server, http(server) as client:
            for one in [*WANTED, {"id": "end", "filter": 'id == "end"'}]:
                assert (await client.post("/v1/subscriptions", json=one)).status_code == 201
            refused = await client.post(
                "/v1/subscriptions", json={"filter": "x > 1", "semantic": {"assignment": "lost"}}
            )
            assert "name a strategy that is installed" in refused.json()["detail"]
            for event in [*EVENTS, {"id": "end"}]:
                assert (await client.post("/v1/events", json=event)).status_code == 202
            await until(lambda: server.engine.metrics.dispatched == len(EVENTS) + 1, 60)
            assert told(tmp_path) == TOLD  # with the ids of the subscriptions, though nobody has taken anything
            for _ in range(2):  # what comes again is no match again
                took = await client.post("/v1/mailboxes/me/take", json={"wait": 20, "limit": 1000})
                found = {(one["event"]["id"], one["sub_id"]): one["event"] for one in took.json()["notifications"]}
                assert {*found} == {*PAIRS, ("end", "end")}
                assert found["fifty", "dear"] == {"id": "fifty", "roman price": "L", "price": 50}
            again = await client.post("/v1/replay", json={"sub": WANTED[0], "position": 0})
            assert again.status_code == 200
            assert told(tmp_path) == []

    with caplog.at_level(logging.ERROR):
        asyncio.run(check())
    assert "the call-back fail failed" in caplog.text


def test_spark(package, tmp_path, spark, monkeypatch):
    environment = spark.sparkContext.environment
    for name, value in (("PYTHONPATH", str(package)), ("RECADO_TEST_TOLD", str(tmp_path / "told"))):
        monkeypatch.setitem(environment, name, value)
    monkeypatch.setitem(environment, "RECADO_DATA", str(tmp_path / "words"))

    def lines(members):
        texts = [(msgspec.json.encode(one).decode(),) for one in members]
        return spark.createDataFrame(texts, "value string").coalesce(1)

    rows = match(lines(EVENTS), lines(WANTED), json="value", include_renamed=True).toArrow().to_pylist()
    found = {(row["event_id"], row["subscription_id"]): row["renamed"] for row in rows}
    assert {*found} == PAIRS
    assert json.loads(found["fifty", "last"]) == {"id": "fifty", "roman price": "L", "price": 50}
    assert told(tmp_path) == TOLD
