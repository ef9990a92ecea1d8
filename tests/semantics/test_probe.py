"""The probe set of the semantics document, 13.6: names with one right attribute in a schema, and names with none."""

import pytest

from recado.semantics.settings import SemanticSettings

SCHEMAS = {
    "sales": "product, price, occurrence, buyer, address",
    "place": "type, measurement unit, continent, residential area, country",
    "weather": "solar radiation, wind speed, wind direction, temperature, relative humidity, atmospheric pressure, "
    "rainfall",
    "building": "room, meeting room, reception, office, bathroom, presence, laptop energy consumption, "
    "air conditioner consumption",
}
RIGHT = {
    "sales": "sale price, cost -> price; purchaser, customer -> buyer; item, merchandise -> product; "
    "sale date -> occurrence; delivery address, destination -> address",
    "place": "event type, kind -> type; unit of measurement, unit -> measurement unit; nation, state -> country; "
    "city, town, neighborhood -> residential area; landmass -> continent",
    "weather": "sunlight, solar irradiance -> solar radiation; wind velocity -> wind speed; "
    "wind bearing -> wind direction; average temperature, heat -> temperature; "
    "humidity, moisture -> relative humidity; "
    "air pressure, barometric pressure -> atmospheric pressure; precipitation, rain -> rainfall",
    "building": "conference room -> meeting room; restroom, lavatory -> bathroom; lobby -> reception; "
    "occupancy -> presence; notebook power usage -> laptop energy consumption; "
    "cooling energy -> air conditioner consumption; chamber -> room; workplace -> office",
}
NONE = {
    "sales": "humidity, wind speed, continent, employee, bathroom",
    "place": "price, buyer, laptop, rainfall, temperature",
    "weather": "price, customer, country, event type, meeting room",
    "building": "price, wind direction, continent, rainfall, buyer",
}


def items():
    """Attributes of a schema, a name, and its right attribute or None."""
    for schema, listed in SCHEMAS.items():
        attributes = listed.split(", ")
        for rule in RIGHT[schema].split("; "):
            names, right = rule.split(" -> ")
            yield from ((attributes, name, right) for name in names.split(", "))
        yield from ((attributes, name, None) for name in NONE[schema].split(", "))


def scores(semantics, settings):
    """The share of names whose right attribute is the nearest, and the best F over thresholds, with that threshold."""
    nearest = []
    for attributes, name, right in items():
        row = semantics.similarities([name], attributes, settings)[0]
        nearest.append((row.max(), attributes[int(row.argmax())], right))
    wanted = sum(right is not None for _, _, right in nearest)
    accuracy = sum(found == right for _, found, right in nearest) / wanted
    best, at = 0.0, 0.0
    for step in range(100):
        chosen = [(found, right) for value, found, right in nearest if value > step / 100]
        f = 2 * sum(found == right for found, right in chosen) / (len(chosen) + wanted)
        if f > best + 1e-12:
            best, at = f, step / 100
    return accuracy, best, at


@pytest.mark.parametrize(
    ("settings", "accuracy", "best", "threshold"),
    [
        (SemanticSettings("hybrid", vetoes=False), 0.900, 0.923, 0.31),
        (SemanticSettings("embedding", vetoes=False), 0.875, 0.880, 0.51),
        (SemanticSettings("mean", vetoes=False), 0.750, 0.773, 0.24),
        (SemanticSettings("mean", {"information": "semcor-add1"}, vetoes=False), 0.750, 0.789, 0.27),
        (SemanticSettings("mean", {"mode": "all"}, vetoes=False), 0.725, 0.747, 0.19),
        (SemanticSettings("mean", {"word": "res"}, vetoes=False), 0.675, 0.693, 0.48),
        (SemanticSettings("mean", {"word": "lin"}, vetoes=False), 0.675, 0.677, 0.80),
        (SemanticSettings("mean", {"word": "wup"}, vetoes=False), 0.700, 0.667, 0.78),
        (SemanticSettings("token-set", vetoes=False), 0.500, 0.436, 0.61),
        (SemanticSettings("jaro-winkler", vetoes=False), 0.350, 0.329, 0.56),
    ],
    ids=lambda value: f"{value.measure}{value.options or ''}" if isinstance(value, SemanticSettings) else "",
)
def test_the_documents_scores_are_reached(semantics, settings, accuracy, best, threshold):
    assert scores(semantics, settings) == pytest.approx((accuracy, best, threshold), abs=1e-3)


def test_fengs_scores_are_near_the_documents(semantics):
    """Its weights come from another corpus there."""
    accuracy, best, _ = scores(semantics, SemanticSettings("feng", {"information": "semcor-add1"}, vetoes=False))
    assert (accuracy, best) == pytest.approx((0.850, 0.853), abs=0.03)


def test_the_vetoes_do_better_than_the_measure_alone(semantics):
    assert scores(semantics, SemanticSettings("hybrid")) == pytest.approx((0.900, 0.935, 0.31), abs=1e-3)
