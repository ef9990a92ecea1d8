"""Writes the sample that ``recado demo`` matches: four little worlds, drawn with a fixed seed.

Run it to see the sample change with the seed: ``python examples/make_sample.py FOLDER [SEED]``. The files that Recado
ships are what it writes with the default seed, and a test holds that.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

SEED = 2026
EVENTS = 400
START = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)

STOCKS = {"PETR4": 25.2, "VALE3": 68.0, "ITUB4": 31.0, "BBDC4": 14.0, "ABEV3": 12.5, "MGLU3": 2.2}
STATIONS = ["Lisboa", "Porto", "Lübeck", "Campinas", "Goiânia", "Galway"]
AIRPORTS = ["LIS", "OPO", "GRU", "GIG", "FRA", "DUB", "MAD", "CDG"]
AIRLINES = ["TP", "LA", "LH", "EI", "IB"]
SECTIONS = ["Business", "Science", "Sport", "Culture"]
SUBJECTS = ["oil", "rain", "football", "chess", "elections", "vaccines", "energy prices", "open data"]
NEWS = ["up again", "down again", "a surprise", "opinions differ", "a new record"]

SUBSCRIPTIONS: list[dict[str, Any]] = [
    # the stock exchange
    {"id": "ana-cheap-petr4", "type": "StockExchange", "filter": 'Stock == "PETR4" and Price < 25'},
    {"id": "ana-vale", "type": "StockExchange", "filter": 'Stock == "VALE3"'},
    {"id": "bruno-banks", "type": "StockExchange", "filter": 'Stock in {"ITUB4", "BBDC4"} and Volume >= 1_000_000'},
    {"id": "bruno-penny", "type": "StockExchange", "filter": "Price < 3"},
    {"id": "carla-crash", "type": "StockExchange", "filter": "Change <= -4"},
    {"id": "carla-rally", "type": "StockExchange", "filter": "Change >= 4"},
    {"id": "desk-big-trades", "filter": "{type, EQ, StockExchange; Volume, GE, 1000000}"},
    {"id": "desk-preferred", "type": "StockExchange", "filter": "{Stock, SF, 4}"},
    {"id": "desk-quiet", "type": "StockExchange", "filter": 'Volume < 50_000 and not (Stock == "MGLU3")'},
    {"id": "desk-range", "type": "StockExchange", "filter": "Price between 30 and 32"},
    {
        "id": "sql-petr",
        "syntax": "cesql",
        "filter": "type = 'StockExchange' AND Stock LIKE 'PETR%' AND Volume > 100000",
    },
    # weather stations
    {"id": "umidade-alta", "filter": "{umidade, GT, 60; temperatura média, LE, 25}"},
    {"id": "umidade-extrema", "type": "Weather*", "filter": "{umidade, GE, 95}"},
    {"id": "frost", "type": "Weather*", "filter": "`temperatura média` <= 0"},
    {"id": "heat", "type": "WeatherReading", "filter": "`temperatura média` > 34"},
    {"id": "storm", "type": "Weather*", "filter": "wind.speed >= 90 or rain.hour > 25"},
    {"id": "gusts-porto", "filter": 'station == "Porto" and wind.gusts > 70'},
    {"id": "lubeck", "type": "WeatherReading", "filter": 'station similar to "Lubeck"'},
    {"id": "goiania-dry", "filter": "{station, EQ, Goiânia; umidade, LT, 50}"},
    {"id": "broken-sensor", "type": "WeatherReading", "filter": "not (exists umidade)"},
    {"id": "battery-low", "filter": "battery < 0.1"},
    # news
    {"id": "dora-science", "type": "News", "filter": 'section == "Science"'},
    {"id": "dora-vaccines", "type": "News", "filter": 'title contains "vaccines"'},
    {"id": "edu-sport", "type": "News", "filter": 'section == "Sport" and words > 800'},
    {"id": "edu-chess", "type": "News", "filter": 'tags == "chess"'},
    {"id": "editor-long", "type": "News", "filter": "words >= 2000"},
    {"id": "editor-records", "type": "News", "filter": 'title like "*record"'},
    {"id": "press-energy", "type": "News", "filter": 'tags in {"energy prices", "oil"} and section != "Culture"'},
    {"id": "archive", "type": "News", "filter": 'section matches "(Cult|Scien).*" and words < 300'},
    {"id": "api-news", "filters": [{"exact": {"type": "News"}}, {"prefix": {"section": "Bus"}}]},
    {
        "id": "api-not-sport",
        "filters": [{"all": [{"exact": {"type": "News"}}, {"not": {"exact": {"section": "Sport"}}}]}],
    },
    # flights
    {"id": "fay-late", "type": "flight.*", "filter": 'flight prefix "TP" and delay > 30'},
    {"id": "fay-home", "type": "flight.*", "filter": 'to == "LIS" and not cancelled == true'},
    {"id": "gil-cancelled", "type": "flight.*", "filter": "cancelled == true"},
    {"id": "gil-gru", "type": "flight.departed", "filter": 'from == "GRU"'},
    {"id": "tower-lis", "type": "flight.*", "filter": 'from == "LIS" or to == "LIS"'},
    {"id": "tower-heavy", "type": "flight.departed", "filter": "passengers > 320"},
    {"id": "meals", "type": "flight.*", "filter": 'meals == "vegan" and passengers >= 100'},
    {"id": "ops-long-delay", "filter": "delay >= 75"},
    # everything
    {"id": "auditor", "filter": 'type matches "[A-Z].*" and (Volume > 4_500_000 or words > 2_400 or umidade >= 98)'},
]


def stock(rng: random.Random) -> dict[str, Any]:
    name = rng.choice(list(STOCKS))
    change = round(rng.gauss(0, 2.2), 2)
    price = round(STOCKS[name] * (1 + change / 100), 2)
    volume = int(rng.paretovariate(0.6) * 20_000) % 5_000_000
    return {"type": "StockExchange", "Stock": name, "Price": price, "Change": change, "Volume": volume}


def weather(rng: random.Random) -> dict[str, Any]:
    station = rng.choice(STATIONS)
    reading: dict[str, Any] = {
        "type": "WeatherReading",
        "station": station,
        "temperatura média": round(rng.gauss(17, 9), 1),
        "umidade": min(100, max(10, int(rng.gauss(66, 20)))),
        "wind": {"speed": int(rng.expovariate(1 / 22)), "gusts": [int(rng.expovariate(1 / 30)) for _ in range(3)]},
        "battery": round(rng.random(), 2),
    }
    if rng.random() < 0.06:
        del reading["umidade"]
    if rng.random() < 0.3:
        reading["rain"] = {"hour": round(rng.expovariate(1 / 6), 1)}
    return reading


def news(rng: random.Random) -> dict[str, Any]:
    subjects = rng.sample(SUBJECTS, 2)
    return {
        "type": "News",
        "section": rng.choice(SECTIONS),
        "title": f"On {subjects[0]}: {rng.choice(NEWS)}",
        "tags": subjects,
        "words": rng.randrange(120, 2600),
    }


def flight(rng: random.Random) -> dict[str, Any]:
    origin, destination = rng.sample(AIRPORTS, 2)
    cancelled = rng.random() < 0.05
    return {
        "type": "flight." + ("cancelled" if cancelled else rng.choice(["departed", "landed"])),
        "flight": f"{rng.choice(AIRLINES)}{rng.randrange(100, 999)}",
        "from": origin,
        "to": destination,
        "delay": 0 if cancelled else max(0, int(rng.gauss(12, 35))),
        "cancelled": cancelled,
        "passengers": rng.randrange(60, 380),
        "meals": rng.sample(["meat", "fish", "vegan"], 2),
    }


def events(seed: int) -> Iterator[dict[str, Any]]:
    """Flat events, except for every tenth, which is a CloudEvent."""
    rng = random.Random(seed)  # noqa: S311  # a sample, not a secret
    worlds = [stock, weather, news, flight]
    for number in range(1, EVENTS + 1):
        members = rng.choice(worlds)(rng)
        type_ = members.pop("type")
        at = (START + timedelta(seconds=9 * number)).strftime("%Y-%m-%dT%H:%M:%SZ")
        if number % 10:
            yield {"id": f"e-{number}", "type": type_, "time": at, **members}
        else:
            head = {"specversion": "1.0", "id": f"e-{number}", "type": type_, "source": "/sample", "time": at}
            yield {**head, "data": members}


def main(folder: str, seed: int = SEED) -> None:
    for name, records in (("subscriptions", SUBSCRIPTIONS), ("events", events(seed))):
        lines = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
        Path(folder, f"{name}.ndjson").write_bytes(lines)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
