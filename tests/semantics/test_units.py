"""Units in names and values: what they are, that conversions are exact both ways, and that engines agree."""

import math
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.filters.syntax import parse_filter
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.semantics.alignment import rename_event
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.match import semantic_match
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.names import tokens
from recado.semantics.settings import SemanticSettings
from recado.semantics.units import BY_SYMBOL, convert, read_unit, take_unit

MEAN = SemanticSettings("mean")
UNITS = sorted(symbol for symbol, unit in BY_SYMBOL.items() if unit.factor)


def unit(name):
    found = take_unit(tokens(name)).unit
    return found.symbol if found else None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("temp_c", "°C"),
        ("temperature_f", "°F"),
        ("speed_kmh", "km/h"),
        ("speedKmH", "km/h"),
        ("wind_speed_ms", "m/s"),
        ("duration_ms", "ms"),
        ("distance_m", "m"),
        ("rain_in", "in"),
        ("temp_c_max", "°C"),
        ("price_usd", "USD"),
        ("battery_percent", "%"),
        ("energy_kWh", "kWh"),
        ("voltage_mV", "mV"),
        ("current_mA", "mA"),
        ("pressure_hPa", "hPa"),
        ("freqGHz", "GHz"),
        ("size_KiB", "KiB"),
        ("temp_degC", "°C"),
        ("throughput_MBps", "MB/s"),
        ("throughput_mbps", "Mbit/s"),
        ("pressure_mb", "hPa"),
        ("memory_mb", "MB"),
        ("acceleration_g", "g₀"),
        ("weight_g", "g"),
        ("temp_deg", "degrees"),
        ("heading_deg", "°"),
        ("vitamin_c", None),
        ("bytes_in", None),
        ("temp_min", None),
        ("plan_m", None),
        ("number_of_bytes", None),
        ("temperature", None),
        ("print_speed_mm_s", "mm/s"),
        ("rain_rate_mm_h", "mm/h"),
        ("gas_btu", "BTU"),
        ("air_flow_cfm", "ft³/min"),
        ("feed_rate_kg_h", "kg/h"),
        ("static_pressure_inH2O", "inH₂O"),
        ("dose_rate_uSv_h", "µSv/h"),
        ("model_tesla", None),
    ],
)
def test_units_are_recognised_in_names(name, expected):
    assert unit(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("noise_db", "dB"),
        ("mass_t", "t"),
        ("lat_rad", "rad"),
        ("light_lux", "lx"),
        ("orders_db", None),
        ("wait_min", None),
    ],
)
def test_a_unit_is_not_what_its_letters_abbreviate_elsewhere(semantics, name, expected):
    for reading in semantics.readings(name, MEAN):
        assert (reading.unit.symbol if reading.unit else None) == expected


@pytest.mark.parametrize(
    ("asked", "said", "value", "expected"),
    [
        ("energy_kWh", "energy_wh", 2500, 2.5),
        ("battery_mV", "battery_v", 3.5, 3500),
        ("throughput_mbps", "throughput_MBps", 2, 16),
        ("draught_m", "draught_ft", 10, 3.048),
        ("area_m2", "area_acres", 2, 8093.7128448),
        ("mass_kg", "mass_t", 3, 3000),
        ("accel_ms2", "accel_g", 2, 19.6133),
        ("volume_ml", "volume_cc", 5, 5),
        ("velocidade_kmh", "velocidade_nos", 10, 18.52),
        ("flow_lpm", "flow_m3h", 3, 50),
        ("time_days", "time_weeks", 2, 14),
        ("percent", "ratio", 0.5, 50),
        ("print_speed_mmps", "print_speed_cm_s", 3, 30),
        ("rain_rate_mm_h", "rain_rate_in_per_h", 2, 50.8),
        ("heat_kWh", "heat_btu", 1000, 0.29307107017222),
        ("air_flow_m3h", "air_flow_cfm", 10, 16.9901079552),
        ("salt_g_l", "salt_kg_m3", 3, 3),
        ("track_length_s", "track_length_ms", 2500, 2.5),
    ],
)
def test_what_is_said_in_another_unit_is_asked_for_in_ones_own(semantics, asked, said, value, expected):
    settings = SemanticSettings("mean", languages=("eng",))
    event = Event("e-1", attributes={said: value})
    (pair,) = (alignment := semantics.align([asked], [said], settings)).pairs
    assert pair.attribute == said
    assert dict(rename_event(event, alignment).items())[asked] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("age_days", "age_years"), ("age_months", "age_years"), ("weight_tons", "weight_kg"), ("power_hp", "power_kw"),
        ("glucose_mg_dl", "glucose_mmol_l"), ("temp_deg", "temp_c"), ("ledge_m", "ledge_ft"), ("span_m", "span_ft"),
        ("price_per_kg", "price"), ("bytes_per_sec", "bytes"), ("rain_mm_h", "rain_mm"), ("feed_kg_h", "feed_kg"),
        ("vitamin_c", "vitamin_f"), ("volume_db", "volume_l"),
    ],
)  # fmt: skip
def test_units_that_nothing_converts_are_vetoed_even_if_they_are_only_likely(semantics, one, other):
    for measure in ("mean", "feng", "token-set", "levenshtein"):
        settings = SemanticSettings(measure)
        for asked, said in ((one, other), (other, one)):
            assert semantics.align([asked], [said], settings).mapping() == {}


@given(st.sampled_from(UNITS), st.sampled_from(UNITS), st.floats(-1e12, 1e12, allow_subnormal=False))
def test_a_conversion_is_exact_both_ways_within_float_precision(one, other, value):
    source, target = BY_SYMBOL[one], BY_SYMBOL[other]
    there = convert(source, target)
    if source.quantity != target.quantity or source == target:
        assert there is None
        return
    converted = there.convert(value)
    exact = (Fraction(value) * source.factor + source.offset - target.offset) / target.factor
    scale = abs(float(source.offset / target.factor)) + abs(float(target.offset / target.factor)) + abs(float(exact))
    assert converted == pytest.approx(float(exact), rel=1e-14, abs=1e-14 * scale + 1e-300)
    back = there.back()
    assert back == convert(target, source)
    spread = abs(value) + float((source.offset + target.offset) / source.factor)
    assert back.convert(converted) == pytest.approx(value, rel=1e-12, abs=1e-14 * spread + 1e-12)


@given(st.integers(-(2**63), 2**64 - 1), st.sampled_from([("°F", "°C"), ("km", "m"), ("ms", "h"), ("m", "ns")][:3]))
def test_whole_numbers_stay_whole_where_they_are(value, pair):
    there = convert(*(BY_SYMBOL[symbol] for symbol in pair))
    converted = there.convert(value)
    exact = Fraction(value * there.times + there.plus, there.over)
    assert isinstance(converted, int | float)
    assert not isinstance(converted, int) or converted == exact
    assert float(converted) == pytest.approx(float(exact), rel=1e-15)


def test_what_is_no_number_is_not_converted():
    there = convert(BY_SYMBOL["°F"], BY_SYMBOL["°C"])
    assert there.convert("warm") == "warm"
    assert there.convert(True) is True
    assert math.isnan(there.convert(math.nan))
    assert there.convert(68) == 20
    assert there.convert(1e308) == pytest.approx(1e308 / 9 * 5)


@pytest.mark.parametrize(
    ("text", "symbol"), [("°F", "°F"), ("CEL", "°C"), ("km/h", "km/h"), ("%", "%"), ("zork", None)]
)
def test_units_are_recognised_beside_values(text, symbol):
    found = read_unit(text)
    assert (found.symbol if found else None) == symbol


def event(**attributes):
    return Event("e", attributes=attributes)


EVENTS = [
    event(temperature_f=68),
    event(temperature_f=95.0),
    event(temperature=95, temperature_unit="F"),
    event(temperature=35, temperature_unit="C"),
    event(temperature=35, temperature_unit="kPa"),
    event(temperature="95 °F"),
    event(temperature="35 °C"),
    event(temperature="warm"),
    event(temperature=35, unit="CEL"),
    event(temperature=95, unit="fahrenheit"),
    event(temperature_f=(68, 95, 104)),
    event(temperature_f=68, temperature_c=35),
    event(**{"temperature_f": 95, "temperature_f in °C": 3}),
    event(temperature_k=308.15),
    event(wind_speed_mph=100),
    event(**{"temperature.value": 68, "temperature.unit": "F"}),
    event(**{"temperature.value": 95, "temperature.unitCode": "FAH", "unit": "CEL"}),
    event(**{"humidity.unitCode": "P1", "temperature.value": 35, "temperature.unitCode": "CEL"}),
    event(temperature=68, unit_of_measurement="°F"),
    event(temperature=95, unit_of_measurement="°F"),
    event(**{"temperature.value": 68, "temperature.unit": "[degF]"}),
    event(temperature=68, temperature_unit="furlong"),
    event(temperature=35, temperature_unit=""),
    event(price=6, currency="EUR"),
    event(price=6, currency="usd"),
    event(price=6, priceCurrency="SEK", currency="USD"),
    event(**{"price.amount": 6, "price.currencyCode": "USD"}),
    event(price=("6 €", "6 USD")),
]


@pytest.mark.parametrize(
    ("happened", "expected"),
    list(
        zip(EVENTS, [0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0], strict=True)
    ),
)
def test_values_are_converted_before_they_are_compared(semantics, happened, expected):
    wanted = Subscription("s", parse_filter("temp_c > 30"), semantic={"measure": "mean"})
    assert bool(semantic_match(happened, wanted, semantics=semantics)) == bool(expected)


FILTERS = [
    "temp_c > 30",
    "temp_c > 30 and temp_f < 100",
    "temp_c > 30 and not temp_k > 400",
    "exists temp_c",
    "{temp_c, SM, warm}",
    "sql: `temp_c` > 30",
    "wind_speed_kmh >= 160",
    "temperature_f > 90",
    "price_usd > 5",
]


@pytest.mark.parametrize("members", [{}, {"unmatched": "ignore"}, {"assignment": "one-to-one"}, {"values": "string"}])
def test_the_index_converts_as_the_oracle_does(members):
    semantics = Semantics(cache=SimilarityCache())
    matcher = SemanticMatcher(semantics)
    wanted = []
    for number, text in enumerate(FILTERS):
        syntax = "cesql" if text.startswith("sql: ") else "auto"
        tree = parse_filter(text.removeprefix("sql: "), syntax)
        wanted.append(Subscription(f"s{number}", tree, semantic={"measure": "mean", **members}))
    matcher.add_many(wanted)
    many = EVENTS * 4
    oracle = [[one.id for one in wanted if semantic_match(happened, one, semantics=semantics)] for happened in EVENTS]
    assert [matcher.match(happened) for happened in EVENTS] == oracle
    assert [sorted(ids) for ids in matcher.match_many(many)] == oracle * 4


def test_the_notification_and_the_explanation_have_the_converted_value(semantics):
    happened = read_event('{"id": "e", "temperature_f": 68}')
    alignment = semantics.align(["temp_c"], ["temperature_f"], MEAN)
    assert rename_event(happened, alignment).attributes == {"temperature_f": 68, "temp_c": 20}
    assert alignment.pairs[0].explain().endswith("converted from °F to °C")


@pytest.mark.parametrize(
    ("happened", "expected"),
    [
        ({"price": 6}, [6]),
        ({"price": 6, "currency": "EUR"}, []),
        ({"price": 6, "currency": "usd"}, [6]),
        ({"price": 6, "priceCurrency": "SEK", "currency": "USD"}, []),
        ({"price": {"amount": 6, "currencyCode": "USD"}}, [6]),
        ({"price": {"amount": 6, "currencyCode": "BRL"}}, []),
        ({"price": "6 €"}, []),
        ({"price": "6 USD"}, [6]),
    ],
)
def test_money_counts_only_in_the_wanted_currency_if_the_event_tells_it(semantics, happened, expected):
    happened = read_event(msgspec.json.encode({"id": "e", **happened}))
    found = semantic_match(happened, Subscription("s", parse_filter("price_usd > 5"), semantic={}), MEAN, semantics)
    assert [rename_event(happened, one.alignment).attributes["price_usd"] for one in [found] if one] == expected


@pytest.mark.parametrize(
    ("wanted", "attribute", "code", "expected"),
    [
        ("distance_km", "distance", "MTR", 0.5),
        ("weight_g", "weight", "KGM", 500_000),
        ("power_kw", "power", "WTT", 0.5),
        ("duration_s", "duration", "C26", 0.5),
        ("volume_ml", "volume", "LTR", 500_000),
        ("rainfall_cm", "rainfall", "MMT", 50),
        ("humidity_pct", "humidity", "C62", 50_000),
        ("weight_lb", "weight", "[lb_av]", 500),
        ("weight_lb", "weight", "stone", "500 stone"),
    ],
)
def test_codes_beside_values_are_units(semantics, wanted, attribute, code, expected):
    happened = read_event(msgspec.json.encode({"id": "e", attribute: {"value": 500, "unitCode": code}}))
    alignment = semantics.align([wanted], list(happened.attributes), MEAN)
    assert rename_event(happened, alignment).attributes[wanted] == expected


@pytest.mark.parametrize(
    ("happened", "explained"),
    [
        ({"temperature": 95, "temperature_unit": "F"}, "converted from °F to °C, as 'temperature_unit' says"),
        ({"temperature": "95 °F"}, "converted from °F to °C, as the value says"),
        ({"temperature": [35, "95 °F"]}, "converted from °F to °C, as the value says"),
        ({"temperature": 35, "temperature_unit": "CEL"}, "in °C as 'temperature_unit' says"),
    ],
)
def test_the_explanation_tells_what_an_event_says_of_its_units(semantics, happened, explained):
    happened = read_event(msgspec.json.encode({"id": "e", **happened}))
    wanted = Subscription("s", parse_filter("temp_c > 30"), semantic={"measure": "mean"})
    matcher = SemanticMatcher(semantics)
    matcher.add(wanted)
    found = semantic_match(happened, wanted, semantics=semantics)
    assert found.explain()[0].endswith(explained)
    assert matcher.alignment(happened, "s") == found.alignment
    temp_c = rename_event(happened, found.alignment).attributes["temp_c"]
    assert temp_c in (35, (35, 35))


def test_units_of_other_quantities_are_vetoed(semantics):
    for one, other in (("price_usd", "price_eur"), ("memory_mb", "memory_percent"), ("energy_kwh", "energy_kg")):
        assert semantics.align([one], [other], MEAN).mapping() == {}
        assert "vetoed (unit)" in semantics.align([one], [other], MEAN).pairs[0].reason


def test_a_text_that_is_a_number_is_not_passed_on_as_if_it_were_in_the_wanted_unit(semantics):
    alignment = semantics.align(["temp_c"], ["temperature_f"], MEAN)
    for text, expected in (("68", "68 °F"), (" 6.8e1", "6.8e1 °F"), ("hot", "hot"), ("68 °F", 20), ("20 °C", 20)):
        renamed = rename_event(Event("e-1", attributes={"temperature_f": text}), alignment)
        assert dict(renamed.items())["temp_c"] == expected
