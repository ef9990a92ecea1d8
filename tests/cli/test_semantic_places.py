"""One data set everywhere: the library, the command, a service and Spark give the same pairs and the same values.

What moves a match is all in it: units, contraries, abbreviations, two languages in both orders, tables that a person
extended, pairs that were given, accepted and refused.
"""

import asyncio
import json
from random import Random

import msgspec
import pytest

from recado.filters.records import read_subscription
from recado.model.codec import read_event, write_flat
from recado.pipeline.match import match
from recado.semantics.alignment import rename_event
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Knowledge, Semantics
from recado.semantics.lexicon.information import load_lexicon
from recado.semantics.lexicon.languages import add_language
from recado.semantics.match import semantic_match
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.overrides import Overrides, ReviewList
from recado.semantics.settings import read_settings
from semantics.portuguese import SAMPLE
from server.running import http, serving

OVERRIDES = """\
contraries = ["inlet intake, outlet exhaust"]

[abbreviations]
zzt = "humidity"

[[precomputed]]
a = "laptop"
b = "notebook"
similarity = 0.95

[[precomputed]]
a = "unit price"
b = "price"
similarity = 0
"""
ACCEPTED = (("start_time", "end_time"), ("widget", "gadget count"))
REFUSED = (("sale price", "price"), ("wind speed", "windSpeed"))

WANTED = {
    "celsius": ("temp_c > 30", {"rename": True, "explain": True}),
    "fahrenheit": ("temperature_f > 86", {"rename": True}),
    "both units": ("temp_c > 30 and temp_k < 400", {"rename": True}),
    "speed": ("speed_kmh >= 100", {"rename": True}),
    "not fast": ("not speed_kmh >= 100", {}),
    "dollars": ("price_usd > 5", {"rename": True}),
    "cheapest": ("min_price < 10", {}),
    "dearest, no vetoes": ("min_price < 10", {"vetoes": False}),
    "latitude": ("lat > 40", {"explain": True}),
    "open": ("{state, SM, open}", {}),
    "open, by letters": ("{state, SM, open}", {"values": "string"}),
    "humid": ("hmdt > 60", {"rename": True}),
    "extended": ("zzt > 60", {}),
    "intake": ("intake flow > 1", {}),
    "en pt": ("umidade > 60", {"language": ["en", "pt"], "rename": True}),
    "pt en": ("umidade > 60", {"language": ["pt", "en"], "rename": True}),
    "humidity en pt": ("humidity > 60", {"language": ["en", "pt"]}),
    "humidity pt en": ("humidity > 60", {"language": ["pt", "en"]}),
    "temperatura": ("temperatura_c > 30", {"language": ["pt", "en"], "rename": True}),
    "accepted over a veto": ("start_time > 5", {"rename": True, "explain": True}),
    "accepted": ("widget > 1", {}),
    "refused": ("sale price > 5", {}),
    "refused spelling": ("wind speed > 5", {}),
    "given": ("laptop > 1", {"rename": True}),
    "given as nothing": ("unit price > 5", {}),
    "one to one": ("temp_c > 30 and temperature_k > 300", {"assignment": "one-to-one"}),
    "ignored": ("temp_c > 30 and qwzxrt > 1", {"unmatched": "ignore"}),
    "by spelling": ("temp_c > 30", {"measure": "token-set", "rename": True}),
    "kilowatt hours": ("energy_kWh >= 2.5", {"rename": True}),
    "ledge": ("ledge_m > 1", {"rename": True}),
    "typed": ("temp_c > 30", {}),
    "exact": ("temp_c > 30", None),
}  # fmt: skip
HAPPENED = [
    {"temperature_f": 95},
    {"temperature_f": 68, "temp_c": 31},
    {"temperature_f": [68, 95.0, 104]},
    {"temperature": 95, "temperature_unit": "F"},
    {"temperature": "35 °C"},
    {"temperature": 35, "unit": "CEL"},
    {"temperature": 35, "temperature_unit": "kPa"},
    {"temp_k": 308.15, "humidity": 70},
    {"temp": 31.5, "type": "Weather"},
    {"temperatura_f": 95},
    {"velocity_mph": 70, "wind_direction": 180},
    {"speed_mps": 20},
    {"windSpeed": 200},
    {"price_eur": 9},
    {"price_usd": 9, "max_price": 5},
    {"max_price": 5},
    {"minimumPrice": 5},
    {"lon": 50},
    {"latitude": 50},
    {"state": "closed"},
    {"state": "open"},
    {"state": "opened", "notebook": 3},
    {"humidity": 70},
    {"umidade": 70, "preço": 9},
    {"relative_humidity_percent": 65},
    {"exhaust flow": 2},
    {"intake_flow": 2, "inletFlow": 3},
    {"end_time": 9},
    {"start_time": 9},
    {"gadget count": 3},
    {"price": 9},
    {"unitPrice": 9},
    {"cost": 9},
    {"laptop": 3},
    {"wind speed": 9},
    {"wind_speed_kmh": 120, "speed limit": 3},
    {"é" * 40: 2, "temp_c in °F": 3},
    {"temperature": {"value": 95, "unitCode": "FAH"}},
    {"temperature": 35, "temperature_unit": "furlong"},
    {"price": 9, "currency": "EUR"},
    {"price": 9, "priceCurrency": "USD"},
    {},
    {"energy_Wh": 2500},
    {"ledge_ft": 9},
    {"state": "reopened", "temperature_f": "95"},
]  # fmt: skip
EVENTS = [{"id": f"e{number:02}", **members} for number, members in enumerate(HAPPENED)]
SURE = {
    "by spelling": "e00",
    "celsius": "e00 e02 e03 e04 e37",
    "dollars": "e40",
    "exact": "e01",
    "typed": "e08",
    "temperatura": "e09",
    "speed": "e10",
    "refused": "e13",
    "dearest, no vetoes": "e15",
    "cheapest": "e16",
    "latitude": "e18",
    "open": "e20",
    "open, by letters": "e20",
    "given": "e21",
    "en pt": "e22",
    "extended": "e22",
    "humid": "e22",
    "pt en": "e22",
    "humidity en pt": "e23",
    "humidity pt en": "e23",
    "intake": "e26",
    "kilowatt hours": "e42",
    "accepted over a veto": "e27",
    "accepted": "e29",
    "refused spelling": "e34",
}
NEVER = {
    "typed": "e00",
    "fahrenheit": "e01",
    "celsius": "e06 e38 e44",
    "ledge": "e43",
    "refused spelling": "e12",
    "dollars": "e13 e39",
    "cheapest": "e15",
    "latitude": "e17",
    "open": "e19",
    "intake": "e25",
    "given as nothing": "e30",
    "refused": "e30",
}


def pairs_of(listed):
    return {(event, id) for id, events in listed.items() for event in events.split()}


def records(measure):
    for id, (filter, semantic) in WANTED.items():
        record = {"id": id, "filter": filter if filter.startswith("{") else _quoted(filter)}
        record |= {"type": "Weather"} if id == "typed" else {}
        yield record | ({"semantic": {"measure": measure, **semantic}} if semantic is not None else {})


def _quoted(filter):
    """Names of several words are quoted."""
    for name in ("intake flow", "sale price", "wind speed", "unit price"):
        filter = filter.replace(name, f"`{name}`")
    return filter


@pytest.fixture
def knowledge(tmp_path, monkeypatch):
    """What people know: a language, a file of overrides, and decisions; as a machine has it."""
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "words"))
    add_language("por", SAMPLE, load_lexicon())
    listed = ReviewList()
    for pairs, accept in ((ACCEPTED, True), (REFUSED, False)):
        for pair in pairs:
            listed.decide(*pair, accept=accept)
    listed.save()
    (tmp_path / "given.toml").write_text(OVERRIDES)
    return Knowledge.read(overrides=tmp_path / "given.toml")


def by_oracle(wanted, events, semantics):
    """The pairs, and what is sent of an event under other names."""
    pairs, renamed, why = set(), {}, {}
    subscriptions = [read_subscription(msgspec.json.encode(one)) for one in wanted]
    for event in map(read, events):
        for one in subscriptions:
            found = semantic_match(event, one, semantics=semantics)
            if found is None:
                continue
            pairs.add((event.id, one.id))
            settings = read_settings(one.semantic)
            if settings is not None and settings.rename:
                renamed[event.id, one.id] = json.loads(write_flat(rename_event(event, found.alignment)))
            if settings is not None and settings.explain:
                why[event.id, one.id] = json.loads(msgspec.json.encode(found.alignment))
    return pairs, renamed, why


def read(members):
    return read_event(msgspec.json.encode(members))


async def by_service(folder, wanted, events):
    pairs, renamed, why = set(), {}, {}
    given = {"overrides": str(folder / "given.toml")}
    renaming = {one["id"] for one in wanted if (one.get("semantic") or {}).get("rename")}
    async with serving(folder, 120, semantics=given) as server, http(server) as client:
        for one in [*wanted, {"id": "last", "filter": 'id == "last"'}]:
            made = await client.post("/v1/subscriptions", json=one)
            assert made.status_code == 201, made.text
        for event in [*events, {"id": "last"}]:
            answer = await client.post("/v1/events", json=event)
            assert answer.status_code in (200, 201, 202), answer.text
        told, after = [], {}
        while not any(one["sub_id"] == "last" for one in told):
            took = await client.post("/v1/mailboxes/me/take", json={"wait": 20, "limit": 1000, **after})
            told += took.json()["notifications"]
            after = {"upto": told[-1]["nid"]} if told else {}
        for one in (one for one in told if one["event"]["id"] != "last"):
            pair = one["event"]["id"], one["sub_id"]
            assert pair not in pairs, "nobody is told twice"
            pairs.add(pair)
            if one["sub_id"] in renaming:
                renamed[pair] = one["event"]
            if one.get("why"):
                why[pair] = one["why"]
    return pairs, renamed, why


def by_spark(spark, wanted, events, knowledge):
    def lines(members):
        texts = [(msgspec.json.encode(one).decode(),) for one in members]
        return spark.createDataFrame(texts, "value string").coalesce(1)

    found = match(lines(events), lines(wanted), json="value", include_renamed=True, knowledge=knowledge).toArrow()
    rows = found.select(["event_id", "subscription_id", "renamed"]).to_pylist()
    keys = [(row["event_id"], row["subscription_id"]) for row in rows]
    return keys, {key: json.loads(row["renamed"]) for key, row in zip(keys, rows, strict=True) if row["renamed"]}


@pytest.mark.parametrize("measure", ["mean", pytest.param("hybrid", marks=pytest.mark.long)])
def test_all_places_give_the_same_pairs_and_values(
    measure,
    knowledge,
    spark,
    recado,
    write,
    tmp_path,
    monkeypatch,
):
    wanted = list(records(measure))
    pairs, renamed, why = by_oracle(wanted, EVENTS, knowledge.semantics())
    if measure == "mean":
        assert sorted(pairs_of(SURE) - pairs) == []
        assert sorted(pairs_of(NEVER) & pairs) == []
    assert renamed["e00", "celsius"] == {"id": "e00", "temperature_f": 95, "temp_c": 35}

    # the library: with and without kernels and cache, one by one and at once, in any order
    rng = Random(1)
    decided, given = knowledge.decided, Overrides.load(tmp_path / "given.toml")
    for plain, cache in ((True, SimilarityCache()), (False, None)):
        matcher = SemanticMatcher(Semantics(overrides=given, decided=decided, cache=cache), plain=plain)
        some, there = rng.sample(wanted, len(wanted)), rng.sample(EVENTS, len(EVENTS))
        matcher.add_many(read_subscription(msgspec.json.encode(one)) for one in some)
        events = [read(members) for members in there]
        assert {(event.id, id) for event in events for id in matcher.match(event)} == pairs
        together = zip(events, matcher.match_many(events), strict=True)
        assert {(event.id, id) for event, ids in together for id in ids} == pairs
        for (event_id, id), expected in renamed.items():
            event = next(event for event in events if event.id == event_id)
            assert json.loads(write_flat(matcher.renamed(event, id))) == expected

    # the command
    files = write("wanted", *map(json.dumps, wanted)), write("events", *map(json.dumps, EVENTS))
    overrides = ("--overrides", str(tmp_path / "given.toml"))
    for engine in ("index", "batch", "naive"):
        run = recado("match", *files, "--engine", engine, *overrides)
        assert {(one["event"], one["subscription"]) for one in run.records} == pairs
    by_id = {one["id"]: one for one in wanted}
    for (event_id, id), expected in list(renamed.items())[::7]:
        event = next(event for event in EVENTS if event["id"] == event_id)
        run = recado("semantics", "align", json.dumps(by_id[id]), json.dumps(event), *overrides)
        assert (run.code, run.records[0]["event"]) == (0, expected)

    # a service, and Spark
    told, named, reasons = asyncio.run(by_service(tmp_path, wanted, EVENTS))
    assert sorted(told ^ pairs) == []
    assert named == renamed
    assert reasons == why
    monkeypatch.setitem(spark.sparkContext.environment, "RECADO_DATA", str(tmp_path / "words"))
    found, named = by_spark(spark, wanted, EVENTS, knowledge)
    assert sorted(found) == sorted(pairs)
    assert named == renamed
