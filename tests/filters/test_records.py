import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.errors import FilterError, SubscriptionError
from recado.filters.records import read_subscription
from recado.model.filter import TRUE, And, Compare
from recado.model.limits import LIMITS, Limits
from recado.model.subscription import Subscription

CHEAP = Compare("Price", "<", 25)


def test_all_members():
    line = (
        '{"id": "s-1", "filter": "Price < 25", "type": "Stock*", "owner": "user:ana@example.org",'
        ' "expires_at": "2026-11-15T10:00:00Z", "constraints": [{"every": 5}], "semantic": {"level": 1}}'
    )
    assert read_subscription(line) == Subscription(
        "s-1",
        CHEAP,
        "Stock*",
        "user:ana@example.org",
        datetime(2026, 11, 15, 10, tzinfo=UTC),
        ({"every": 5},),
        {"level": 1},
    )


@pytest.mark.parametrize(
    ("line", "filter"),
    [
        ('{"id": 1}', TRUE),
        ('{"id": "s", "filter": null, "type": null}', TRUE),
        ('{"id": "s", "filter": "{Price, LT, 25}"}', CHEAP),
        ('{"id": "s", "filter": "Price < 25", "syntax": "expression"}', CHEAP),
        ('{"id": "s", "filters": []}', TRUE),
    ],
)
def test_filters_in_any_form(line, filter):
    read = read_subscription(line.encode())
    assert read.filter in (filter, And((filter,)), And(()) if filter is TRUE else filter)


def test_an_integer_id_is_its_text():
    assert read_subscription('{"id": 17}').id == "17"


def test_cesql_and_the_subscriptions_api():
    assert read_subscription("""{"id": "s", "filter": "a = 'x'", "syntax": "cesql"}""").filter != TRUE
    assert read_subscription('{"id": "s", "filters": [{"exact": {"a": "x"}}]}').filter != TRUE


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "$: the JSON text ends too early"),
        ("[]", "$: must be an object, not a list"),
        ("{}", "$: lacks the member `id`"),
        ('{"id": ""}', '$.id: the subscription has no id; give it one such as {"id": "s-1"}'),
        ('{"id": true}', "$.id: must be a whole number or a text, not true or false"),
        ('{"id": "s", "filtre": "a == 1"}', "there is no member `filtre`"),
        ('{"id": "s", "filter": 5}', "$.filter: must be a text or null, not a whole number"),
        ('{"id": "s", "filter": "a <"}', "subscription 's': "),
        (
            '{"id": "s", "filter": "a == 1", "syntax": "xpath"}',
            "$.syntax: 'xpath' is none of auto, braces, cesql, expression, template",
        ),
        ('{"id": "s", "filter": "a", "filters": []}', "$.filters: give either filter or filters, not both"),
        ('{"id": "s", "filters": [{"magic": {}}]}', "subscription 's': "),
        ('{"id": "s", "expires_at": "noon"}', "$.expires_at: 'noon' is not an RFC 3339 timestamp"),
        ('{"id": "' + "s" * 257 + '"}', "$.id: has 257 characters; the limit is 256"),
        ('{"id": "s", "owner": "' + "o" * 1025 + '"}', "$.owner: has 1,025 characters; the limit is 1,024"),
        ('{"id": "s", "type": "' + "t" * 1025 + '"}', "$.type: has 1,025 characters; the limit is 1,024"),
        (b'{"id": "\xff"}', "the text is not UTF-8"),
        ('{"id": "\ud800"}', "the text is not UTF-8"),
        ('{"id": "s", "semantic": ' + '{"a":' * 5000, "the JSON is nested far too deep"),
        ('{"id": "s", "filters": ' + "[" * 60_000, "the JSON is nested far too deep"),
        (" " * (LIMITS.subscription_bytes + 1), "the record has 65,537 bytes; the limit is 65,536"),
    ],
)
def test_errors_say_what_is_wrong(line, message):
    with pytest.raises(SubscriptionError, match=re.escape(message)):
        read_subscription(line)


def test_a_filter_error_is_shown_with_its_caret_and_kept_as_cause():
    with pytest.raises(SubscriptionError, match=r"\n +\^") as caught:
        read_subscription('{"id": "s", "filter": "Price < 25 adn x > 1"}')
    assert isinstance(caught.value.__cause__, FilterError)


def test_the_limits_hold_for_the_filter_with_its_type():
    line = '{"id": "s", "type": "t", "filter": "a == 1 and b == 2"}'
    assert read_subscription(line, Limits(filter_predicates=3))
    with pytest.raises(SubscriptionError, match="subscription 's': "):
        read_subscription(line, Limits(filter_predicates=2))


@given(st.text(max_size=40) | st.binary(max_size=40))
def test_any_text_gives_a_subscription_or_an_error(text):
    with pytest.raises(SubscriptionError):
        read_subscription(text + ("?" if isinstance(text, str) else b"?"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "s", "filter": "x > 1", "filter": "x > 2"}', "$: the key 'filter' is given twice"),
        ('{"id": "s", "syntax": "auto", "syntax": "cesql", "filter": "x = 1"}', "$: the key 'syntax' is given twice"),
        ('{"id": "s", "type": null, "type": "t"}', "$: the key 'type' is given twice"),
        ('{"id": "s", "filters": [{"exact": {"a": "1", "a": "2"}}]}', "$.filters[0].exact: the key 'a' is given twice"),
        ('{"id": "s", "constraints": [{"kind": "a", "kind": "b"}]}', "$.constraints[0]: the key 'kind' is given twice"),
        ('{"id": "s", "semantic": {"x": {"y": 1, "y": 1}}}', "$.semantic.x: the key 'y' is given twice"),
    ],
)
def test_a_repeated_key_is_refused_with_its_name(line, message):
    for raw in (line, line.encode()):
        with pytest.raises(SubscriptionError) as caught:
            read_subscription(raw)
        assert message in str(caught.value)


def test_members_that_are_written_out_or_null_are_no_repetition():
    filter = 'a == ":" and b == "x\\\\"'
    line = json.dumps({"id": 5, "syntax": "auto", "type": None, "filter": filter, "owner": "user:a"})
    assert read_subscription(line).owner == "user:a"
