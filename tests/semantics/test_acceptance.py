"""The acceptance tests of the semantics document, 14.1.

T-13, a target that is down, is ``test_an_unreachable_target_holds_up_nobody`` in tests/server/test_webhooks.py.

T-15, the reference values, is in ``test_word_measures`` and ``test_name_measures``.
"""

import pytest

from recado.filters.braces import event_line
from recado.filters.syntax import parse_filter
from recado.model.codec import read_event
from recado.model.filter import And, Compare
from recado.model.subscription import Subscription
from recado.semantics.cache import SimilarityCache
from recado.semantics.engine import Semantics
from recado.semantics.match import semantic_match
from recado.semantics.matcher import SemanticMatcher
from recado.semantics.names import tokens
from recado.semantics.overrides import Given, Overrides
from recado.semantics.settings import SemanticSettings

SALE = """{"id": "venda", "produto": "Macbook Air", "preço": 6000.0, "ocorrência": "2017-06-15",
    "comprador": "João da Silva", "endereço": "Avenida Rio Branco, 1000. Rio de Janeiro - RJ"}"""
LINE = (
    "136-2\t{type=atmospheric pressure increase event, measurement unit=pascals, continent=European countries, "
    "residential area=Lubeck, country=Germany}"
)
JCN = SemanticSettings("mean", {"word": "jcn"}, threshold=0.55)
LOW = SemanticSettings("mean", {"word": "jcn"}, threshold=0.15, envelope=True, vetoes=False)


def delivered(event, filter, settings=JCN, semantics=None):
    return semantic_match(event, Subscription("s", parse_filter(filter)), settings, semantics)


def test_t01_exact_names():
    event = read_event(SALE)
    filter = "{ocorrência, GT, 2017-01-01; endereço, SF, Rio de Janeiro - RJ}"
    assert delivered(event, filter)
    assert delivered(event, "{endereço, EQ, Rio de Janeiro - RJ}") is None
    exact = semantic_match(event, Subscription("s", parse_filter(filter)))
    assert exact is not None
    assert exact.alignment is None


@pytest.mark.parametrize(
    "settings", [JCN, SemanticSettings("feng"), SemanticSettings("hybrid"), SemanticSettings("mean", {"mode": "all"})]
)
def test_t02_and_t03_sale_price_reaches_price(settings):
    a, b = "{product, EQ, book; price, GT, 50}", "{product, EQ, book; sale price, GT, 50}"
    dear = read_event('{"id": "e", "product": "book", "price": 60}')
    cheap = read_event('{"id": "e", "product": "book", "price": 40}')
    assert semantic_match(dear, Subscription("b", parse_filter(b))) is None
    assert delivered(dear, a, settings)
    found = delivered(dear, b, settings)
    assert found.alignment.mapping() == {"product": "product", "sale price": "price"}
    assert delivered(cheap, a, settings) is None
    assert delivered(cheap, b, settings) is None


def test_t04_the_braces():
    filter = parse_filter("{umidade, GT, 60; temperatura média, LE, 25}")
    assert filter == And((Compare("umidade", ">", 60), Compare("temperatura média", "<=", 25)))
    assert tokens("temperatura média") == ["temperatura", "média"]


def test_t05_nation_is_country():
    found = delivered(event_line(LINE), "{nation, EQ, Germany}")
    assert found.alignment.mapping() == {"nation": "country"}
    assert found.alignment.pairs[0].similarity == 1


def test_t06_event_type_is_type_where_the_envelope_takes_part():
    found = delivered(event_line(LINE), "{event type, SS, pressure}", LOW)
    assert found.alignment.mapping() == {"event type": "type"}
    assert delivered(event_line(LINE), "{event type, SS, pressure}") is None


def test_t07_no_pair_or_a_pair_that_fails():
    assert delivered(event_line(LINE), "{invoice number, GT, 5}") is None
    assert Semantics().align(["invoice number"], ["measurement unit"], LOW).mapping()
    assert delivered(event_line(LINE), "{invoice number, GT, 5}", LOW) is None


def test_t08_ignored_or_failed():
    filter = "{country, EQ, Germany; invoice number, GT, 5}"
    ignore = SemanticSettings("mean", threshold=0.55, unmatched="ignore")
    assert delivered(event_line(LINE), filter, ignore)
    assert delivered(event_line(LINE), filter, JCN) is None
    low = SemanticSettings("mean", threshold=0.15, unmatched="ignore", vetoes=False)
    assert delivered(event_line(LINE), filter, low) is None


def test_t09_camel_case():
    assert tokens("residentialArea") == ["residential", "area"]
    assert tokens("AirConditionerConsumption") == ["air", "conditioner", "consumption"]


def test_t10_a_precomputed_similarity():
    event = read_event('{"id": "e", "laptop": 3}')
    assert delivered(event, "{notebook, GT, 1}") is None
    told = Semantics(overrides=Overrides([Given("laptop", "notebook", 0.95, "word")]))
    found = delivered(event, "{notebook, GT, 1}", JCN, told)
    assert found.alignment.pairs[0].similarity == 0.95
    assert found.alignment.pairs[0].reason == "given"


def test_t11_the_cache_changes_nothing():
    cached = Semantics(cache=SimilarityCache())
    filters = ["{nation, EQ, Germany}", "{event type, SS, pressure}", "{invoice number, GT, 5}", "{city, EQ, Lubeck}"]
    for settings in (JCN, LOW, SemanticSettings("feng")):
        for filter in filters * 3:
            assert delivered(event_line(LINE), filter, settings, cached) == delivered(
                event_line(LINE), filter, settings
            )
    assert cached.cache.hits > cached.cache.misses > 0


def test_t12_the_first_of_two_equals():
    for first, second in (("cost", "price"), ("price", "cost")):
        event = read_event(f'{{"id": "e", "{first}": 1, "{second}": 2}}')
        assert delivered(event, "{toll, EQ, 1}").alignment.mapping() == {"toll": first}


def test_t14_whoever_unsubscribed_gets_nothing(semantics):
    matcher = SemanticMatcher(semantics)
    matcher.add(Subscription("s", parse_filter("{sale price, GT, 50}"), semantic={"measure": "mean"}))
    event = read_event('{"id": "e", "price": 60}')
    assert matcher.match(event) == ["s"]
    assert matcher.remove("s")
    assert matcher.match(event) == []
