"""Units of measurement in names and values, and how a value gets from one to another.

``temp_c`` is a temperature in degrees Celsius, ``speed_kmh`` a speed, ``tempf`` a temperature in degrees Fahrenheit.
A unit stands at the end of a name, or before a last word such as ``max``. Symbols that mean much else besides (``c``,
``m``, ``in``) are units only beside a word that is measured in them: ``temp_c`` and not ``vitamin_c``.

Every unit leads to the base of its quantity by a factor and an offset, which are fractions; so a conversion is three
whole numbers, ``(value * times + plus) / over``: exact up to one rounding for whole numbers. Units of money have no
factor: they are told apart and never converted.
"""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import msgspec

from recado.model.limits import LIMITS
from recado.model.values import INT_MAX, INT_MIN, Value, check_value
from recado.semantics.plugins import Plugins

_log = logging.getLogger("recado.semantics")
_WRITTEN_CHARS = 64
"""A longer text is no number with a unit."""


class Unit(msgspec.Struct, frozen=True):
    """``symbol`` as people write it; to the base of the ``quantity``: ``value * factor + offset``; None: unknown."""

    symbol: str
    quantity: str
    factor: Fraction | None
    offset: Fraction = Fraction(0)


class Conversion(msgspec.Struct, frozen=True, gc=False):
    """From one unit to another: ``(value * times + plus) / over``."""

    source: str
    target: str
    times: int
    plus: int
    over: int

    def convert(self, value: Value) -> Value:
        """A number in the other unit, whole if it is so exactly; what is no number is left as it is."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if isinstance(value, int):
            whole, rest = divmod(value * self.times + self.plus, self.over)
            if not rest and INT_MIN <= whole <= INT_MAX:
                return whole
            return (value * self.times + self.plus) / self.over
        if not math.isfinite(value):
            return value
        converted = (value * self.times + self.plus) / self.over
        return converted if math.isfinite(converted) else value / self.over * self.times

    def back(self) -> Conversion:
        """The other way round."""
        return Conversion(self.target, self.source, self.over, -self.plus, self.times)

    def explain(self) -> str:
        return f"converted from {self.source} to {self.target}"


def convert(source: Unit, target: Unit) -> Conversion | None:
    """From one unit to another of the same quantity; None if nothing is known, or nothing is to be done."""
    if source == target or source.quantity != target.quantity or not source.factor or not target.factor:
        return None
    factor = source.factor / target.factor
    offset = (source.offset - target.offset) / target.factor
    over = math.lcm(factor.denominator, offset.denominator)
    return Conversion(source.symbol, target.symbol, int(factor * over), int(offset * over), over)


# --- The table -------------------------------------------------------------------------------------------------------
#
# Quantity: the words that are measured in it. Unit: factor, then its spellings, first those that are always a unit,
# after "?" those that are one only beside a word of the quantity. Spellings of several tokens have blanks.

_INCH = Fraction(254, 10_000)
_FOOT, _MILE = 12 * _INCH, Fraction(1_609_344, 1_000)
_POUND = Fraction(45_359_237, 100_000)
_GALLON = Fraction(3_785_411_784, 1_000_000_000)
_PI = Fraction(math.pi)

MONEY = "money"
_CURRENCIES = ("usd", "eur", "brl", "gbp", "jpy", "cny", "chf", "cad", "aud", "mxn", "ars", "inr")
_Rows = Sequence[tuple[str, Fraction | int, str]]
_TABLE: dict[str, tuple[str, _Rows]] = {
    "temperature": (
        "temperature temp temperatura t dew point dewpt tmp setpoint temps thermostat orvalho",
        [
            ("°C", 1, "celsius centigrade degc degrees celsius ? c"),
            ("°F", Fraction(5, 9), "fahrenheit degf degrees fahrenheit ? f"),
            ("K", 1, "kelvin kelvins ? k"),
            ("°R", Fraction(5, 9), "rankine degrees rankine"),
            ("degrees", 0, "? deg ? degrees ? degree ? graus"),
        ],
    ),
    "length": (
        (
            "distance dist length height width depth altitude alt elevation rain rainfall precipitation snow "
            "visibility radius diameter thickness odometer mileage level distancia altura largura profundidade "
            "comprimento chuva precipitacao daily hourly weekly monthly yearly range accuracy acc raio "
            "draught draft calado beam swell tide wave mare onda clearance perimeter circumference"
        ),
        [
            ("m", 1, "meter meters metre metres metro metros ? m"),
            ("km", 1000, "km kms kilometer kilometers kilometre kilometres quilometro quilometros"),
            ("cm", Fraction(1, 100), "cm centimeter centimeters centimetre centimetres"),
            ("mm", Fraction(1, 1000), "mm millimeter millimeters millimetre millimetres milimetros"),
            ("µm", Fraction(1, 1_000_000), "um micron microns micrometer micrometers micrometre micrometres"),
            ("in", _INCH, "inch inches polegada polegadas ? in"),
            ("ft", _FOOT, "feet foot ? ft ? pes"),
            ("yd", 3 * _FOOT, "yard yards"),
            ("mi", _MILE, "mile miles milhas ? mi"),
            ("nmi", 1852, "nmi nautical miles"),
            ("fathom", 6 * _FOOT, "fathoms ? fathom"),
        ],
    ),
    "speed": (
        "speed velocity vel spd wind gust velocidade vento wspd rajada",
        [
            ("m/s", 1, "mps m per s meters per second metres per second metros por segundo ? ms ? m s"),
            ("km/h", Fraction(5, 18), "kmh kph kmph km h km per h kilometers per hour km por hora"),
            ("mph", _MILE / 3600, "mph miles per hour mi per h"),
            ("kn", Fraction(1852, 3600), "knot knots kts ? kn ? kt ? nos"),
            ("ft/s", _FOOT, "fps ft per s feet per second"),
            ("km/s", 1000, "kmps km s"),
            ("cm/s", Fraction(1, 100), "cmps cm s"),
            ("mm/s", Fraction(1, 1000), "mmps mm s"),
            ("m/min", Fraction(1, 60), "meters per minute metres per minute"),
            ("mm/h", Fraction(1, 3_600_000), "mmph mm h mm per h"),
            ("in/h", _INCH / 3600, "inph in per h inches per hour"),
        ],
    ),
    "acceleration": (
        "acceleration accel acc aceleracao",
        [("m/s²", 1, "ms2 mps2"), ("g₀", Fraction(980_665, 100_000), "? g")],
    ),
    "mass": (
        "weight mass load payload peso massa carga wt cargo dose dosage",
        [
            ("g", 1, "gram grams gramas grama ? g"),
            ("kg", 1000, "kg kgs kilogram kilograms quilos kilo kilos"),
            ("mg", Fraction(1, 1000), "milligram milligrams ? mg"),
            ("t", 1_000_000, "tonne tonnes tonelada toneladas ? t"),
            ("lb", _POUND, "lb lbs pounds ? libras"),
            ("oz", _POUND / 16, "oz ounce ounces"),
            ("st", 14 * _POUND, "? st ? stone"),
            ("ton", 0, "? ton ? tons"),
        ],
    ),
    "time": (
        (
            "duration time latency delay timeout uptime elapsed interval age ttl period wait response duracao tempo "
            "atraso intervalo dur ping rtt headway runtime created updated modified epoch length"
        ),
        [
            ("s", 1, "second seconds secs segundos segundo sec ? s"),
            ("ms", Fraction(1, 1000), "ms millis millisecond milliseconds msec milissegundos"),
            ("µs", Fraction(1, 1_000_000), "us usec micros microsecond microseconds"),
            ("ns", Fraction(1, 1_000_000_000), "ns nano nanos nanosecond nanoseconds"),
            ("min", 60, "minutes mins minutos ? min ? minute"),
            ("h", 3600, "hours hrs horas ? h ? hr ? hour"),
            ("d", 86_400, "days dias ? d ? day"),
            ("weeks", 604_800, "weeks semanas ? week"),
            ("months", 0, "? months ? month ? meses"),
            ("years", 0, "? years ? year ? yrs ? yr ? anos"),
        ],
    ),
    "data": (
        "memory mem size disk storage file body payload heap memoria tamanho ram length",
        [
            ("B", 1, "bytes byte"),
            ("kB", 1000, "kb kilobyte kilobytes"),
            ("MB", 1000**2, "mb megabyte megabytes"),
            ("GB", 1000**3, "gb gigabyte gigabytes"),
            ("TB", 1000**4, "tb terabyte terabytes"),
            ("KiB", 1024, "kib kibibytes"),
            ("MiB", 1024**2, "mib mebibytes"),
            ("GiB", 1024**3, "gib gibibytes"),
            ("bit", Fraction(1, 8), "bits"),
        ],
    ),
    "data rate": (
        "",
        [
            ("bit/s", 1, "bps bits per second"),
            ("kbit/s", 1000, "kbps"),
            ("Mbit/s", 1000**2, "mbps"),
            ("Gbit/s", 1000**3, "gbps"),
            ("B/s", 8, "bytes per second"),
            ("kB/s", 8 * 1000, "k bps"),
            ("MB/s", 8 * 1000**2, "m bps"),
            ("GB/s", 8 * 1000**3, "g bps"),
        ],
    ),
    "energy": (
        "energy energia consumption consumo",
        [
            ("J", 1, "joule joules ? j"),
            ("kJ", 1000, "kj kilojoules"),
            ("Wh", 3600, "wh watthours watt hours"),
            ("kWh", 3_600_000, "kwh kilowatt hours kilowatthours"),
            ("MWh", 3_600_000_000, "mwh"),
            ("GWh", 3_600_000_000_000, "gwh"),
            ("MJ", 1_000_000, "mj megajoules"),
            ("kcal", 4184, "kcal kilocalories"),
            ("BTU", Fraction(105_505_585_262, 100_000_000), "btu btus"),
            ("therm", Fraction(105_505_585_262, 1000), "therms ? therm"),
        ],
    ),
    "power": (
        "power pwr potencia load",
        [
            ("W", 1, "watt watts ? w"),
            ("kW", 1000, "kw kilowatt kilowatts"),
            ("MW", 1_000_000, "megawatt megawatts"),
            ("mW", Fraction(1, 1000), "milliwatt milliwatts m w"),
            ("GW", 1_000_000_000, "gigawatt gigawatts ? gw"),
            ("hp", 0, "horsepower ? hp"),
        ],
    ),
    "apparent power": ("", [("VA", 1, "va"), ("kVA", 1000, "kva")]),
    "reactive power": ("", [("var", 1, "vars ? var"), ("kvar", 1000, "kvar")]),
    "pressure": (
        "pressure press baro barom barometric pressao atmospheric tire tyre",
        [
            ("Pa", 1, "pascal pascals ? pa"),
            ("hPa", 100, "hpa hectopascal hectopascals mbar millibar millibars ? mb"),
            ("kPa", 1000, "kpa kilopascal kilopascals"),
            ("MPa", 1_000_000, "? mpa"),
            ("bar", 100_000, "bars ? bar"),
            ("psi", Fraction(6_894_757_293_168_361, 1_000_000_000_000), "psi"),
            ("inHg", Fraction(3_386_389, 1000), "inhg in hg inches mercury ? in"),
            ("mmHg", Fraction(133_322_387_415, 1_000_000_000), "mmhg mm hg"),
            ("Torr", Fraction(101_325, 760), "torr"),
            ("atm", 101_325, "atmospheres ? atm"),
            ("mmH₂O", Fraction(980_665, 100_000), "mmh2o mm h2o mm h2 o"),
            ("inH₂O", Fraction(24_908_891, 100_000), "inh2o in h2o in h2 o"),
        ],
    ),
    "voltage": (
        "voltage volt vcc vbat battery bat batt tensao input output supply",
        [
            ("V", 1, "volts ? v"),
            ("mV", Fraction(1, 1000), "mv millivolt millivolts"),
            ("kV", 1000, "kv kilovolts"),
        ],
    ),
    "current": (
        "current curr corrente amperage charging",
        [
            ("A", 1, "amp amps ampere amperes ? a"),
            ("mA", Fraction(1, 1000), "ma milliamp milliamps"),
        ],
    ),
    "charge": ("", [("Ah", 1, "ah"), ("mAh", Fraction(1, 1000), "mah")]),
    "volume": (
        "volume vol capacity fuel water tank tanque combustivel",
        [
            ("L", 1, "liter liters litre litres litros ? l"),
            ("mL", Fraction(1, 1000), "ml milliliter milliliters cc cm3"),
            ("cL", Fraction(1, 100), "cl centiliter centiliters"),
            ("m³", 1000, "m3 cubic meters"),
            ("ft³", 1000 * _FOOT**3, "ft3 cubic feet"),
            ("gal", _GALLON, "gallon gallons galoes ? gal"),
            ("fl oz", _GALLON / 128, "floz fl oz fluid ounces"),
            ("bbl", 42 * _GALLON, "bbl"),
        ],
    ),
    "flow": (
        "",
        [
            ("L/min", 1, "lpm"),
            ("L/s", 60, "lps"),
            ("L/h", Fraction(1, 60), "lph"),
            ("m³/h", Fraction(1000, 60), "m3h"),
            ("m³/s", 60_000, "m3s"),
            ("gal/min", _GALLON, "gpm"),
            ("gal/h", _GALLON / 60, "gph"),
            ("L/d", Fraction(1, 1440), "lpd"),
            ("m³/min", 1000, "m3min"),
            ("m³/d", Fraction(1000, 1440), "m3d"),
            ("ft³/min", 1000 * _FOOT**3, "cfm"),
        ],
    ),
    "mass flow": (
        "",
        [
            ("kg/h", Fraction(1, 3600), "kgh kg h kg per h"),
            ("kg/s", 1, "kg s kg per s"),
            ("t/h", Fraction(1000, 3600), "t per h"),
            ("lb/h", _POUND / 1000 / 3600, "lb h lb per h"),
        ],
    ),
    "ratio": (
        "",
        [
            ("%", Fraction(1, 100), "percent pct percentage porcentagem perc"),
            ("ratio", 1, "ratio fraction fracao"),
        ],
    ),
    "angle": (
        "heading direction bearing angle azimuth tilt rotation dir course direcao wind latitude longitude lat lon",
        [("°", 1, "degrees deg graus"), ("rad", 180 / _PI, "radians ? rad")],
    ),
    "frequency": (
        "",
        [("Hz", 1, "hz hertz"), ("kHz", 1000, "khz"), ("MHz", 1000**2, "mhz"), ("GHz", 1000**3, "ghz")],
    ),
    "rotation": ("", [("rpm", 1, "rpm")]),
    "concentration": ("", [("ppm", 1, "ppm"), ("ppb", Fraction(1, 1000), "ppb")]),
    "mass concentration": (
        "",
        [
            ("µg/m³", 1, "ugm3 ug m3"),
            ("mg/m³", 1000, "mgm3 mg m3"),
            ("mg/L", 1_000_000, "mgl mg l"),
            ("mg/dL", 10_000_000, "mgdl mg dl"),
            ("g/L", 1_000_000_000, "g l g per l"),
            ("g/dL", 10_000_000_000, "gdl g dl g per dl"),
            ("kg/m³", 1_000_000_000, "kgm3 kg m3"),
        ],
    ),
    "molar concentration": ("", [("mmol/L", 1, "mmoll mmol l mmol")]),
    "illuminance": ("", [("lx", 1, "lux ? lx"), ("klx", 1000, "klux klx")]),
    "force": (
        "",
        [
            ("N", 1, "newtons newton ? n"),
            ("kN", 1000, "kilonewtons ? kn"),
            ("lbf", Fraction(44_482_216_152_605, 10_000_000_000_000), "lbf"),
            ("kgf", Fraction(980_665, 100_000), "kgf"),
        ],
    ),
    "torque": (
        "torque",
        [
            ("N·m", 1, "? nm"),
            ("lb·ft", Fraction(13_558_179_483_314_004, 10_000_000_000_000_000), "lbft ftlb"),
        ],
    ),
    "resistance": ("", [("Ω", 1, "ohm ohms"), ("kΩ", 1000, "kohm kohms"), ("MΩ", 1_000_000, "mohm megaohms")]),
    "conductivity": (
        "",
        [("µS/cm", 1, "uscm us cm"), ("mS/cm", 1000, "mscm ms cm"), ("S/m", 10_000, "? s m"), ("dS/m", 1000, "dsm")],
    ),
    "sound level": ("", [("dB", 1, "dba decibel decibels ? db"), ("dBm", 1, "dbm")]),
    "radiation dose": (
        "",
        [("Sv", 1, "sievert sieverts"), ("mSv", Fraction(1, 1000), "msv"), ("µSv", Fraction(1, 1_000_000), "usv")],
    ),
    "dose rate": (
        "",
        [("mSv/h", 1000, "msvh msv h"), ("µSv/h", 1, "usvh usv h"), ("nSv/h", Fraction(1, 1000), "nsvh nsv h")],
    ),
    "activity": ("", [("Bq", 1, "becquerel becquerels bq"), ("kBq", 1000, "kbq")]),
    "magnetic flux density": (
        "magnetic magnetometer field flux",
        [
            ("T", 1, "? tesla ? teslas"),
            ("mT", Fraction(1, 1000), "millitesla"),
            ("µT", Fraction(1, 1_000_000), "microtesla"),
            ("G", Fraction(1, 10_000), "gauss"),
        ],
    ),
    "luminous flux": ("", [("lm", 1, "lumen lumens")]),
    "irradiance": ("", [("W/m²", 1, "wm2 w m2"), ("kW/m²", 1000, "kwm2 kw m2")]),
    "area": (
        "",
        [
            ("m²", 1, "m2 sqm"),
            ("km²", 1_000_000, "km2 sqkm"),
            ("ha", 10_000, "hectares ? ha"),
            ("ft²", _FOOT**2, "sqft ft2"),
            ("mi²", _MILE**2, "sqmi mi2"),
            ("acre", 4840 * 9 * _FOOT**2, "acres ? acre"),
        ],
    ),
    MONEY: (
        "",
        [(code.upper(), 0, code) for code in _CURRENCIES],
    ),
}  # fmt: skip
_OFFSETS = {"°C": Fraction(27_315, 100), "°F": Fraction(45_967, 100) * Fraction(5, 9)}
_HINTS = {quantity: frozenset(words.split()) for quantity, (words, _) in _TABLE.items()}
_EXTRA_HINTS = {
    "sound level": frozenset({"noise", "sound", "ruido", "signal", "rssi"}),
    "illuminance": frozenset({"light"}),
    "area": frozenset({"area", "surface"}),
    "force": frozenset({"force", "thrust"}),
    "conductivity": frozenset({"conductivity", "cond", "ec"}),
}
LONE = {
    "mass": "weight", "energy": "energy", "temperature": "temperature", "voltage": "voltage", "power": "power",
    "ratio": "ratio",
}  # fmt: skip
"""A name that is nothing but a unit of these is the quantity: ``grams`` is a weight."""
_IMPLIED = {"rotation": "speed"}
"""What a unit says beside the rest of the name: ``engine_rpm`` is a speed."""
_SAID = {
    "temperature": "temperature temperatura", "mass": "weight mass peso massa", "pressure": "pressure pressao",
    "voltage": "voltage tensao", "current": "current corrente", "power": "power potencia", "energy": "energy energia",
    "speed": "speed velocity velocidade", "volume": "volume", "area": "area", "flow": "flow vazao fluxo",
    "mass flow": "flow vazao fluxo", "force": "force forca", "torque": "torque", "frequency": "frequency frequencia",
    "time": "duration duracao", "data": "size tamanho", "illuminance": "illuminance luminosidade",
    "resistance": "resistance resistencia", "conductivity": "conductivity condutividade",
    "concentration": "concentration concentracao", "mass concentration": "concentration concentracao",
}  # fmt: skip
_SAID_OF = {quantity: frozenset(words.split()) for quantity, words in _SAID.items()}
_TIMES = frozenset({"time", "tempo", "length"})


def said_by(unit: Unit | None, other: Unit | None) -> frozenset[str]:
    """The words that a name need not have if it has a unit: what ends with *volts* is a voltage.

    ``other`` is the unit of the name that has them. Minutes are a *time* or *length* only if that is in a unit, too:
    else it may be a moment.
    """
    if unit is None:
        return frozenset()
    said = _SAID_OF.get(unit.quantity, frozenset())
    return said | _TIMES if other is not None and unit.quantity == other.quantity == "time" else said


TRAILING = frozenset({
    "max", "min", "maximum", "minimum", "avg", "average", "mean", "total", "today", "daily", "maxima", "minima",
    "media", "maximo", "minimo", "medio", "atual",
})  # fmt: skip
"""A unit may stand before one of these."""
LONGEST = 3
"""Tokens in a unit, at most."""
_PREFIXES = frozenset({"k", "m", "g", "t", "h", "d", "c", "n", "u", "ki", "mi", "gi", "ti", "deg"})
"""What camel case cuts off a unit: ``energy_kWh``, ``temp_degC``."""


def _spellings() -> dict[str, list[tuple[Unit, bool]]]:
    """By spelling: the units that it may mean, and whether each is one beside certain words only."""
    found: dict[str, list[tuple[Unit, bool]]] = {}
    for quantity, (_, rows) in _TABLE.items():
        for symbol, factor, listed in rows:
            offset = _OFFSETS.get(symbol, Fraction(0))
            unit = Unit(symbol, quantity, Fraction(factor) if factor else None, offset)
            for spelling, doubtful in _read_spellings(listed):
                found.setdefault(spelling, []).append((unit, doubtful))
    return found


_PHRASES = (
    "degrees celsius", "degrees fahrenheit", "degrees rankine", "nautical miles", "m per s", "meters per second",
    "metres per second", "metros por segundo", "m s", "km h", "km per h", "kilometers per hour", "km por hora",
    "miles per hour", "mi per h", "ft per s", "feet per second", "bits per second", "watt hours", "kilowatt hours",
    "in hg", "inches mercury", "mm hg", "cubic meters", "cubic feet", "fl oz", "fluid ounces", "ug m3", "mg m3",
    "w m2", "kw m2", "mg l", "mg dl", "mmol l", "us cm", "ms cm", "s m", "bytes per second", "k bps", "m bps", "g bps",
    "m w", "km s", "cm s", "mm s", "mm h", "mm per h", "in per h", "inches per hour", "meters per minute",
    "metres per minute", "kg h", "kg per h", "kg s", "kg per s", "t per h", "lb h", "lb per h", "mm h2o",
    "in h2 o", "mm h2 o", "in h2o",
    "msv h", "usv h", "nsv h", "g l", "g per l", "g dl", "g per dl", "kg m3",
)  # fmt: skip


def _read_spellings(listed: str) -> list[tuple[str, bool]]:
    found, doubtful = [], False
    rest = listed
    while rest:
        if rest.startswith("? "):
            doubtful, rest = True, rest[2:]
        phrase = next((one for one in _PHRASES if rest == one or rest.startswith(one + " ")), rest.split(" ")[0])
        found.append((phrase, doubtful))
        rest = rest[len(phrase) :].lstrip()
    return found


_BY_SPELLING = _spellings()
BY_SYMBOL = {unit.symbol: unit for units in _BY_SPELLING.values() for unit, _ in units}
SYMBOLS = frozenset(spelling for spelling in _BY_SPELLING if " " not in spelling)
"""Spellings of one token."""


def plain(text: str) -> str:
    """In small letters, without accents."""
    parts = unicodedata.normalize("NFD", text.casefold())
    return "".join(char for char in parts if unicodedata.category(char) != "Mn")


def find_unit(spelling: str, beside: Sequence[str]) -> Unit | None:
    """The unit that a spelling means beside these words."""
    fallback = None
    for unit, doubtful in _BY_SPELLING.get(spelling, ()):
        hints = _HINTS[unit.quantity] | _EXTRA_HINTS.get(unit.quantity, frozenset())
        if not hints.isdisjoint(beside):
            return unit
        if not doubtful and fallback is None:
            fallback = unit
    return fallback


class Measured(msgspec.Struct, frozen=True):
    """The tokens of a name without its unit, and the unit."""

    tokens: tuple[str, ...]
    unit: Unit | None


def take_unit(tokens: Sequence[str], beside: Sequence[str] = ()) -> Measured:
    """A name's unit, and what is left of the name; ``beside`` are further words that its tokens stand for."""
    folded = [plain(token) for token in tokens]
    for end in (len(tokens), len(tokens) - 1):
        if end < len(tokens) and (end < 2 or folded[end] not in TRAILING):
            break
        for size in range(min(LONGEST, end - 1), 0, -1):
            before, taken = folded[: end - size], folded[end - size : end]
            near = [*before, *beside]
            unit = find_unit(" ".join(taken), near)
            if unit is None and size > 1 and taken[0] in _PREFIXES:
                unit = find_unit(" ".join(["".join(taken[:2]), *taken[2:]]), near)
            if unit is not None and _may_follow(before, unit):
                implied = _IMPLIED.get(unit.quantity)
                said = () if implied is None or implied in before else (implied,)
                return Measured((*tokens[: end - size], *said, *tokens[end:]), unit)
    if len(tokens) == 1:
        unit = find_unit(folded[0], ())
        if unit is not None and unit.quantity in LONE:
            return Measured((LONE[unit.quantity],), unit)
    return Measured(tuple(tokens), None)


def find_units(spelling: str) -> list[Unit]:
    """All units that a spelling may mean."""
    return [unit for unit, _ in _BY_SPELLING.get(plain(spelling), ())]


def find_unit_token(tokens: Sequence[str], beside: Sequence[str] = ()) -> int:
    """The place of a token that is a unit there, whatever else it may be short for (``noise_db``); -1 if there is none.

    ``min`` is a minimum.
    """
    folded = [plain(token) for token in tokens]
    for at in (len(folded) - 1, len(folded) - 2):
        if at < 1 or (at < len(folded) - 1 and folded[-1] not in TRAILING):
            break
        near = [*folded[:at], *beside]
        if folded[at] not in TRAILING and find_unit(folded[at], near) is not None and _may_follow(folded[:at], None):
            return at
    return -1


_RATES = frozenset({
    "rate", "speed", "velocity", "frequency", "flow", "throughput", "bandwidth", "cadence", "intensity", "economy",
    "efficiency", "density", "taxa", "fluxo", "velocidade", "frequencia",
})  # fmt: skip


def is_rate(tokens: Sequence[str]) -> bool:
    """Does a name say that it is so much in each unit of something, as ``bit_rate`` does?"""
    return not _RATES.isdisjoint(map(plain, tokens))


def is_per_unit(tokens: Sequence[str]) -> bool:
    """Does a name say so by the unit: ``price_per_kg``?"""
    folded = [plain(token) for token in tokens]
    return any(token in ("per", "por") and find_units(folded[at + 1]) for at, token in enumerate(folded[:-1]))


def loose_units(tokens: Sequence[str]) -> frozenset[str]:
    """The symbols of all units that the end of a name may be, however much else it may mean: of ``tide_ft`` *ft*."""
    folded = [plain(token) for token in tokens]
    if len(folded) > 2 and folded[-1] in TRAILING:
        folded.pop()
    if len(folded) < 2 or folded[-1] in TRAILING or folded[-1] == "in":  # ``measured in``
        return frozenset()
    return frozenset(unit.symbol for unit in find_units(folded[-1]))


def _may_follow(before: Sequence[str], unit: Unit | None) -> bool:
    """``bytes sent`` is no unit, nor is ``number of bytes``."""
    return before[-1] not in ("of", "number", "count", "per", "de") or (unit is not None and unit.quantity == MONEY)


# --- Units that an event says beside a value, or in it ---------------------------------------------------------------

_WITH_UNIT = re.compile(
    r"\s*([+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:[eE][+-]?\d{1,2})?)\s*([^\s\d][^\d]{0,24}?)\s*"
)
_NUMBER = re.compile(r"\s*[+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:[eE][+-]?\d{1,2})?\s*")
_WRITTEN = {
    "°c": "celsius", "ºc": "celsius", "c": "celsius", "°f": "fahrenheit", "ºf": "fahrenheit", "f": "fahrenheit",
    "cel": "celsius", "fah": "fahrenheit", "€": "eur", "£": "gbp", "r$": "brl", "us$": "usd",
    "k": "kelvin", "km/h": "kmh", "m/s": "mps", "mi/h": "mph", "%": "percent",
    "m": "meter", "s": "seconds", "min": "minutes", "h": "hours", "g": "gram", "l": "liter", "v": "volts", "a": "amps",
    "w": "watts", "in": "inches", "ft": "feet", "mi": "miles", "°": "degrees", "pa": "pascal", "bar": "bars",
    "µg/m³": "ugm3", "ug/m3": "ugm3", "μg/m³": "ugm3", "w/m²": "wm2", "w/m2": "wm2", "d": "days", "j": "joule",
    "atm": "atmospheres", "rad": "radians", "db": "decibels", "lx": "lux", "mg": "milligram", "kn": "knots",
}  # fmt: skip
"""How units are written beside numbers, in small letters."""
_CODES = {
    "CEL": "celsius", "FAH": "fahrenheit", "KEL": "kelvin", "MTR": "meter", "KMT": "km", "CMT": "cm", "MMT": "mm",
    "INH": "inches", "FOT": "feet", "YRD": "yard", "SMI": "miles", "NMI": "nmi", "MTS": "mps", "KMH": "kmh",
    "HM": "mph", "KNT": "knots", "GRM": "gram", "KGM": "kg", "MGM": "milligram", "TNE": "tonne", "LBR": "lb",
    "ONZ": "oz", "SEC": "seconds", "C26": "ms", "B98": "us", "C47": "ns", "MIN": "minutes", "HUR": "hours",
    "DAY": "days", "AD": "bytes", "2P": "kb", "4L": "mb", "E34": "gb", "E35": "tb", "A99": "bits", "JOU": "joule",
    "KJO": "kj", "WHR": "wh", "KWH": "kwh", "MWH": "mwh", "WTT": "watts", "KWT": "kw", "MAW": "megawatt",
    "C31": "milliwatt", "PAL": "pascal", "A97": "hpa", "MBR": "mbar", "KPA": "kpa", "BAR": "bars", "PS": "psi",
    "F79": "inhg", "HN": "mmhg", "ATM": "atmospheres", "VLT": "volts", "2Z": "mv", "KVT": "kv", "AMP": "amps",
    "4K": "ma", "AMH": "ah", "LTR": "liter", "MLT": "ml", "MTQ": "m3", "GLL": "gallon", "P1": "percent",
    "C62": "ratio", "DD": "degrees", "C81": "radians", "HTZ": "hz", "KHZ": "khz", "MHZ": "mhz", "A86": "ghz",
    "RPM": "rpm", "59": "ppm", "61": "ppb", "GQ": "ugm3", "GP": "mgm3", "LUX": "lux", "2N": "decibels", "D54": "wm2",
    "MTK": "m2", "KMK": "km2", "HAR": "hectares", "FTK": "sqft", "MW": "megawatt", "mW": "milliwatt",
    "[degF]": "fahrenheit", "[in_i]": "inches", "[ft_i]": "feet", "[yd_i]": "yard", "[mi_i]": "miles",
    "[nmi_i]": "nmi", "[mi_i]/h": "mph", "[kn_i]": "knots", "[lb_av]": "lb", "[oz_av]": "oz", "By": "bytes",
    "W.h": "wh", "kW.h": "kwh", "[psi]": "psi", "mm[Hg]": "mmhg", "[in_i'Hg]": "inhg", "[gal_us]": "gallon",
    "[ppm]": "ppm", "[ppb]": "ppb", "dB[SPL]": "decibels", "[sft_i]": "sqft",
}  # fmt: skip
"""Codes as they are written: of UN/CEFACT (schema.org, smart data models) and of UCUM (FHIR)."""


def read_unit(text: str) -> Unit | None:
    """The unit that a text such as ``°F``, ``km/h``, ``CEL`` or ``[degF]`` names."""
    written = text.strip()
    folded = written.casefold()
    spelling = _CODES.get(written) or _WRITTEN.get(folded, folded)
    known = _BY_SPELLING.get(spelling) or _BY_SPELLING.get(plain(spelling))
    return next((unit for unit, doubtful in known if not doubtful), None) if known else None


class Reading(msgspec.Struct, frozen=True):
    """How the values of an attribute are read by somebody who wants them in a unit, or as a plug-in converts them.

    ``name`` is what the converted values go by. ``target`` is the wanted unit's symbol, ``conversion`` is from the unit
    that the attribute's name says; ``teller`` is an attribute that tells the unit of this one, if ``is_sure``, or of
    some attribute. ``converter`` is a plug-in, which is asked with the two names. ``stated`` is only for explanations:
    the conversion that one event asked for.
    """

    name: str
    constraint: str
    attribute: str
    target: str = ""
    conversion: Conversion | None = None
    teller: str | None = None
    is_sure: bool = False
    converter: str = ""
    stated: Conversion | None = None

    def read(self, value: Value, told: object = None) -> Value:
        """The value as it is wanted; as it is if nothing is known; as text if its unit is one that nothing converts."""
        if self.converter:
            return self._read_by_converter(value)
        number, source = self._told(value, told)
        if source is None and self.conversion is not None and isinstance(value, str) and _NUMBER.fullmatch(value):
            return f"{value.strip()} {self.conversion.source}"  # a text is no number, and not in the wanted unit either
        if source is None:
            return self.conversion.convert(value) if self.conversion is not None else value
        target = BY_SYMBOL[self.target]
        if source == target:
            return number
        conversion = convert(source, target)
        if conversion is not None:
            return conversion.convert(number)
        return value if isinstance(value, str) else f"{value} {source.symbol}"

    def tell(self, value: Value, told: object = None) -> Reading:
        """With the conversion of this value to explain, where the event and not the attribute's name says its unit."""
        source = None if self.converter else self._told(value, told)[1]
        conversion = convert(source, BY_SYMBOL[self.target]) if source is not None else None
        return self if conversion is None else msgspec.structs.replace(self, stated=conversion)

    def _told(self, value: Value, told: object) -> tuple[Value, Unit | None]:
        """The number of a value, and the unit that the event says it is in; None if it says none of it."""
        if isinstance(value, str):
            found = _WITH_UNIT.fullmatch(value) if len(value) <= _WRITTEN_CHARS else None
            source = read_unit(found[2]) if found else None
            if found is None or source is None:
                return value, None
            return float(found[1]) if set(found[1]) & set(".eE") else int(found[1]), source
        if isinstance(value, bool) or not isinstance(value, int | float) or not isinstance(told, str) or not told:
            return value, None
        source, quantity = read_unit(told), BY_SYMBOL[self.target].quantity
        is_its_own = self.is_sure or quantity == MONEY
        if source is None:
            return value, Unit(told[:_WRITTEN_CHARS], "unknown", None) if is_its_own else None
        return value, source if is_its_own or source.quantity == quantity else None

    def _read_by_converter(self, value: Value) -> Value:
        """What the plug-in makes of it; what it fails on, or makes no value of, is a text that no number is like."""
        try:
            found = converters.find(self.converter)(self.constraint, self.attribute)
            converted = value if found is None else found(value)
            check_value(converted, "what it gave", LIMITS.string_chars)
        except Exception as error:  # noqa: BLE001  # of somebody else's code; matching goes on
            _log.warning("the converter %s failed for %r of %s: %s", self.converter, value, self.attribute, error)
            return f"{value} (not converted by {self.converter})"
        return converted

    def explain(self) -> str:
        """What is done to values, in words; nothing if that depends on the event."""
        if self.converter:
            return f"converted by {self.converter}"
        if self.stated is not None:
            return f"{self.stated.explain()}, as {repr(self.teller) if self.teller else 'the value'} says"
        if self.conversion is not None:
            return self.conversion.explain()
        return f"in {self.target} as {self.teller!r} says" if self.teller else ""


TELLERS = (
    "unit", "units", "unitcode", "unittext", "uom", "unitofmeasurement", "unitofmeasure", "measurementunit", "unidade",
    "unidademedida", "unidadedemedida",
)  # fmt: skip
"""``temperature_unit`` tells the unit of ``temperature``; ``unit`` alone that of whatever it can be of."""
MONEY_TELLERS = ("currency", "currencycode", "moeda")
"""The same for money."""
_VALUES = ("value", "valor", "amount")
"""``temperature.unit`` tells that of ``temperature.value``, too, as smart data models and JSON-LD have it."""


def is_teller(name: str) -> bool:
    """Could an attribute of this name tell a unit?"""
    return "".join(char for char in plain(name) if char.isalnum()).endswith((*TELLERS, *MONEY_TELLERS))


def find_teller(
    attribute: Sequence[str], others: Mapping[str, Sequence[str]], is_money: bool = False
) -> tuple[str | None, bool]:
    """Of some attributes, given with their tokens, the one that tells the unit of another; and whether that is sure."""
    owned, lone = [plain(token) for token in attribute], None
    owners = ["".join(owned)]
    if len(owned) > 1 and owned[-1] in _VALUES:
        owners.append("".join(owned[:-1]))
    for name, tokens in others.items():
        joined = "".join(map(plain, tokens))
        for teller in MONEY_TELLERS if is_money else TELLERS:
            if any(owner and joined == owner + teller for owner in owners):
                return name, True
            if joined == teller:
                lone = name
    return lone, False


converters: Plugins[Callable[[str, str], Callable[[Value], Value] | None]] = Plugins("recado.converters", "converter")
"""Functions of a filter's name and an attribute, which give a function of values, or None if they know nothing."""


def find_converter(constraint: str, attribute: str) -> str:
    """The first converter, by name, that knows a filter's name and an attribute; one that fails knows nothing."""
    for name in converters.names():
        try:
            if converters.find(name)(constraint, attribute) is not None:
                return name
        except Exception:  # noqa: BLE001  # of somebody else's code; matching goes on
            _log.exception("the converter %s failed for %r and %r", name, constraint, attribute)
    return ""
