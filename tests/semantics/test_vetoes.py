"""Vetoes: symmetric, independent of cache and order, never against an equal name; abbreviations; plug-ins."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import RecadoError
from recado.filters.syntax import parse_filter
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.semantics.alignment import rename_event
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.mapping import decide_many, export_decisions, import_decisions, map_names
from recado.semantics.match import callbacks, is_similar, semantic_match
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.overrides import Overrides, ReviewList
from recado.semantics.settings import SemanticSettings, read_settings, strategies
from recado.semantics.units import converters
from recado.semantics.vetoes import abbreviates

MEAN = SemanticSettings("mean")
NAMES = [
    "min_price", "max_price", "price", "lat", "longitude", "windSpeed", "wind_direction", "temp_c", "temperature_f",
    "startDate", "end time", "first_name", "familyName", "order_number", "orderDate", "city", "country", "humidityin",
    "bytes_in", "bytes.sent", "old price", "pm25", "pm10", "qwzxrt", "wspd", "createdAt", "stop", "battery level", "",
    "energy_kWh", "energy_wh", "ledge_m", "ledge_ft", "age_days", "age_years", "price_per_kg", "dbtr", "cdtr",
    "creditor", "occupied", "unoccupied", "home_phone", "work_phone", "noise_db", "mass_t", "magnitudeType",
    "magnitude", "payer_id", "payee_id", "not_delivered", "delivered", "no_leak_found", "leak_found", "stay_minutes",
    "stayDurationSec", "bat_v", "battery_voltage", "email", "emailAddress",
]  # fmt: skip
TRAPS = [
    ("windSpeed", "windDirection"), ("min_price", "max_price"), ("lat", "longitude"), ("systolic", "diastolic"),
    ("supply_temperature", "return_temperature"),
    ("from_stop", "to_stop"), ("bytes_in", "bytes_out"), ("first_name", "last_name"), ("pos_x", "pos_y"),
    ("start_date", "end_date"), ("order_number", "order_date"), ("city", "country"), ("price", "price currency"),
    ("votes_for", "votes_against"), ("payer_id", "payee_id"), ("mentor_name", "mentee_name"),
    ("cache_hits", "cache_misses"),
    ("not_delivered", "delivered"), ("no_leak_found", "leak_found"), ("price_without_tax", "price_with_tax"),
    ("profit", "loss"), ("first_half", "second_half"), ("home_email_address", "home_address"),
]  # fmt: skip


@pytest.mark.parametrize("measure", ["mean", "feng", "token-set", "levenshtein"])
@pytest.mark.parametrize("pair", TRAPS, ids=" ".join)
def test_traps_are_vetoed_by_every_measure(semantics, pair, measure):
    for one, other in (pair, pair[::-1]):
        assert semantics.align([one], [other], SemanticSettings(measure)).mapping() == {}


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=6), st.lists(st.sampled_from(NAMES), min_size=1, max_size=6)
)
@settings(deadline=None, max_examples=40)
def test_vetoes_are_symmetric_and_independent_of_cache_and_company(semantics, a, b):
    values = semantics.similarities(a, b, MEAN)
    assert np.array_equal(values, semantics.similarities(b, a, MEAN).T)
    cached = Semantics(cache=SimilarityCache())
    for _ in range(2):
        assert np.array_equal(cached.similarities(a, b, MEAN), values)
    for row, one in enumerate(a):
        for column, other in enumerate(b):
            assert semantics.similarity(one, other, MEAN) == values[row, column]
            if one == other:
                assert values[row, column] == 1


def test_an_equal_name_is_never_vetoed(semantics):
    for name in NAMES:
        if name:
            assert semantics.align([name], ["min_price", name], MEAN).mapping() == {name: name}


def test_a_pair_says_what_spoke_against_it(semantics):
    (pair,) = semantics.align(["min_price"], ["max_price"], MEAN).pairs
    assert pair.reason == "vetoed (contrary): 'max' is not 'min'"
    assert semantics.align(["min_price"], ["max_price"], SemanticSettings("mean", vetoes=False)).mapping()


@pytest.mark.parametrize("pair", [("landlord", "tenant"), ("teacher", "student"), ("lender", "borrower")], ids=" ".join)
def test_the_other_side_of_a_relation_is_a_contrary(semantics, pair):
    for one, other in (pair, pair[::-1]):
        assert semantics.objection(f"{one}_name", f"{other}_name", MEAN).sort == "contrary"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("home_phone", "work_phone"), ("fuel_level", "fuel_rate"), ("bid_price", "ask_price"),
        ("occupied", "unoccupied"),
        ("connected_clients", "disconnected_clients"), ("planned_arrival", "actual_arrival"),
        ("earliest_date", "latest_date"),
        ("dbtr", "cdtr"), ("dtstart", "dtend"), ("valor_pago", "valor_empenhado"),
    ],
)  # fmt: skip
def test_what_differs_in_what_is_said_of_one_thing_does_not_match(semantics, one, other):
    """A doubt is never above the measure's own threshold, so it waits for a person."""
    settings = SemanticSettings("feng", languages=("eng",))
    for asked, said in ((one, other), (other, one)):
        (pair,) = semantics.align([asked], [said], settings).pairs
        assert pair.attribute is None
        assert semantics.similarity(asked, said, settings) <= settings.limit


def test_a_word_that_nobody_knows_may_be_letters_of_one_that_is_known(semantics):
    assert semantics.align(["CdtrAcct"], ["creditor account"], MEAN).mapping()
    assert semantics.align(["engine_rpm"], ["engineSpeed"], MEAN).mapping()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("stay_minutes", "stayDurationSec"), ("bat_v", "battery_voltage"), ("oven_celsius", "oven_temperature_f"),
        ("mash_minutes", "mash_time_s"), ("track_length_s", "track_duration_ms"),
    ],
)  # fmt: skip
def test_a_unit_says_what_is_measured(semantics, one, other):
    for measure in ("mean", "feng"):
        assert semantics.align([one], [other], SemanticSettings(measure)).mapping() == {one: other}
    assert semantics.align(["stay_minutes"], ["stay_temperature"], MEAN).mapping() == {}
    assert semantics.align(["order_minutes"], ["order_weight"], MEAN).mapping() == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("email", "emailAddress"), ("e-mail", "email_addr"), ("no_of_seats", "seat_count"),
        ("invoice_no", "invoice_number"),
        ("no_pedido", "numero_pedido"), ("apptDate", "appointment date"), ("vbat", "batteryVoltage"),
    ],
)  # fmt: skip
def test_ways_of_writing_one_thing(semantics, one, other):
    assert semantics.align([one], [other], MEAN).mapping() == {one: other}


@pytest.mark.parametrize(
    ("value", "text"), [("connected", "disconnected"), ("valid", "invalid"), ("docked", "undocked"), ("bid", "ask")]
)
def test_a_value_is_not_its_negation(semantics, value, text):
    for measure in ("mean", "feng"):
        assert not is_similar(value, text, SemanticSettings(measure), semantics)
        assert not is_similar(text, value, SemanticSettings(measure), semantics)


@pytest.mark.parametrize(("value", "text"), [("closed", "open"), ("off", "on"), ("red", "blue"), ("low", "high")])
def test_values_have_the_same_vetoes(semantics, value, text):
    assert not is_similar(value, text, MEAN, semantics)


@pytest.mark.parametrize(
    ("value", "text"), [("cat", "dog"), ("lion", "tiger"), ("apple", "pear"), ("Germany", "France"), ("gold", "silver")]
)
def test_values_that_are_siblings_in_wordnet_are_not_the_same(semantics, value, text):
    """Whatever a measure says, they stay at or below its own threshold, whichever comes first."""
    for measure in ("mean", "feng"):
        wanted = SemanticSettings(measure)
        assert not is_similar(value, text, wanted, semantics)
        assert not is_similar(text, value, wanted, semantics)
        raw = semantics.similarity(value, text, SemanticSettings(measure, vetoes=False), as_values=True)
        assert semantics.similarity(value, text, wanted, as_values=True) <= min(wanted.limit, raw / 2)


@pytest.mark.parametrize(("value", "text"), [("car", "automobile"), ("rain", "precipitation"), ("sofa", "couch")])
def test_a_synonym_and_what_stands_above_are_no_siblings(semantics, value, text):
    assert is_similar(value, text, MEAN, semantics)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("country name", "state"),  # a state is also a country here
        ("room", "place in the building"),  # which says only where it is
        ("device", "equipment"),  # classes of things, not things side by side
        ("building", "building kind"),
    ],
)
def test_a_veto_needs_evidence(semantics, a, b):
    assert semantics.objection(a, b, MEAN) is None
    assert semantics.objection(b, a, MEAN) is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("order state", "order name"),
        ("room", "building"),
        ("room temperature", "temperature in the building"),
        ("name of the building", "room"),
        ("error kind", "error message"),
    ],
)
def test_with_evidence_it_stays(semantics, a, b):
    for one, other in ((a, b), (b, a)):
        objection = semantics.objection(one, other, MEAN)
        assert objection is not None
        assert not objection.is_doubt


def test_names_about_the_same_of_which_other_things_are_said_are_a_doubt(semantics):
    objection = semantics.objection("urban area", "residential area", MEAN)
    assert objection is not None
    assert objection.is_doubt
    raw = semantics.similarity("urban area", "residential area", SemanticSettings("mean", vetoes=False))
    doubted = semantics.similarity("urban area", "residential area", MEAN)
    assert doubted == min(raw / 2, MEAN.limit)
    (pair,) = (alignment := semantics.align(["urban area"], ["residential area"], MEAN)).pairs
    assert pair.attribute is None
    assert pair in alignment.uncertain(0.0)  # for a person to review, however far from the threshold


def test_values_have_a_threshold_of_their_own(semantics):
    wanted = {"measure": "mean", "threshold": 0.2}
    assert is_similar("cat", "dog", read_settings({**wanted, "vetoes": False}), semantics)
    assert not is_similar("cat", "dog", read_settings({**wanted, "vetoes": False, "value_threshold": 0.8}), semantics)


@pytest.mark.parametrize(
    ("short", "words"),
    [(["hmdt"], ["humidity"]), (["wspd"], ["wind", "speed"]), (["wnd", "speed"], ["wind", "speed"])],
)
def test_names_made_of_letters_of_the_words(short, words):
    assert abbreviates(short, words)


@pytest.mark.parametrize(("short", "words"), [(["cat"], ["concatenation"]), (["ab"], ["able"]), (["tax"], ["tag"])])
def test_other_names_are_not(short, words):
    assert not abbreviates(short, words)


@pytest.mark.parametrize("short", [["a" * 64] * 32, ["abab" * 16] * 32, ["z" * 64, "a" * 63]])
def test_hostile_names_stay_bounded(semantics, short):
    """Nothing here may take exponential time: the test would not end."""
    assert not abbreviates(short, ["a" * 64] * 31 + ["b"])
    name, other = "_".join(short), "_".join(["minmax" * 10] * 32)
    assert semantics.similarity(name, other, MEAN) == 0


def test_tables_can_be_extended(tmp_path):
    file = tmp_path / "given.toml"
    file.write_text('contraries = ["inlet intake, outlet exhaust"]\n[abbreviations]\nzzt = "humidity"\n')
    extended = Semantics(overrides=Overrides.load(file))
    assert extended.align(["zzt"], ["humidity"], MEAN).mapping() == {"zzt": "humidity"}
    assert extended.align(["intake flow"], ["exhaust flow"], MEAN).mapping() == {}
    assert extended.digest != Semantics().digest
    file.write_text('contraries = ["inlet"]\n')
    with pytest.raises(RecadoError, match="no group of contraries"):
        Overrides.load(file)


def test_a_mapping_is_ranked_decided_undone_and_exported(semantics, data, tmp_path):
    asked, said = ["temp_c", "min_price", "zork"], ["temperature_f", "max_price", "cost"]
    mapping = map_names(semantics, asked, said, MEAN)
    best = {one.name: one for one in reversed(mapping.candidates)}
    assert (best["temp_c"].attribute, best["temp_c"].converted) == ("temperature_f", "converted from °F to °C")
    assert any(one.attribute == "max_price" and one.state == "vetoed" for one in mapping.candidates)
    assert "zork" in mapping.missing
    listed = ReviewList()
    assert decide_many(listed, mapping.candidates, accept_from=0.9, refuse_below=0.1)[0] == 1
    assert export_decisions(listed, tmp_path / "pairs.json") == len(listed.decided())
    again = ReviewList()
    assert import_decisions(again, tmp_path / "pairs.json") == len(listed.decided())
    assert sorted(again.decided()) == sorted(listed.decided())
    assert again.undo("temp_c", "temperature_f")
    assert not again.undo("temp_c", "temperature_f")
    decided = Semantics(overrides=Overrides.load(tmp_path / "pairs.json"))
    first = map_names(decided, asked, said, MEAN).candidates[0]
    assert (first.state, first.converted) == ("given", "converted from °F to °C")
    ranked = map_names(semantics, ["min_price"], ["cat", "sun", "temperature_f", "max_price"], MEAN, most=1)
    assert [(one.attribute, one.state) for one in ranked.candidates] == [("max_price", "vetoed")]


def test_strategies_converters_and_call_backs_can_be_added(semantics):
    told = []
    strategies.register("last", lambda similarities, limit: [similarities.shape[1] - 1] * len(similarities))
    converters.register("roman", lambda name, attribute: {"X": 10}.get if attribute == "roman price" else None)
    callbacks.register("list", lambda event, id: told.append((event.id, id)))
    try:
        chosen = read_settings({"measure": "mean", "assignment": "last"})
        assert semantics.align(["price"], ["cost", "zork"], chosen).mapping() == {"price": "zork"}
        event = Event("e", attributes={"roman price": "X"})
        wanted = Subscription("s", parse_filter("price > 5"), semantic={"measure": "mean"})
        found = semantic_match(event, wanted, semantics=semantics)
        assert rename_event(event, found.alignment).attributes["price"] == 10
        matcher = SemanticMatcher(semantics)
        matcher.add(wanted)
        assert (matcher.match(event), told) == (["s"], [("e", "s")])
        with pytest.raises(RecadoError, match="must be best or one-to-one"):
            read_settings({"assignment": "first"})
    finally:
        strategies.remove("last")
        converters.remove("roman")
        callbacks.remove("list")
