"""CESQL by example: operators, casts, functions, errors, as the specification describes them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cesql_texts import expressions
from recado.filters import cesql
from recado.filters.cesql.evaluator import FUNCTIONS
from recado.filters.cesql.types import INT_MAX, INT_MIN, represent, spellings, to_string
from recado.filters.evaluate import matches, names_of
from recado.model import Event
from recado.model.codec import read_event
from recado.model.filter import Not, Sql
from strategies import events, values

VIEW = {
    "id": "e-1",
    "type": "sensor.reading",
    "source": "/hall/3",
    "word": "Porto",
    "digits": "42",
    "padded": "  42",
    "number": 42,
    "negative": -7,
    "huge": 2**40,
    "fraction": 2.5,
    "integral": 7.0,
    "flag": True,
    "unset": False,
    "yes": "TRUE",
    "empty": "",
    "time": datetime(2026, 11, 15, 10, tzinfo=UTC),
    "data.level": 3,
    "temperatura média": 21,
    "9lives": "cat",
}

VALUES = [
    # literals
    ("TRUE", True), ("fAlSe", False), ("0", 0), ("007", 7), ("+7", 7), ("-7", -7), ("2147483647", INT_MAX),
    ("-2147483648", INT_MIN), ("'Porto'", "Porto"), ('"Porto"', "Porto"), ("''", ""), ("'it\\'s'", "it's"),
    ('"say \\"hi\\""', 'say "hi"'), ("'say \"hi\"'", 'say "hi"'), ("'a\\nb'", "a\\nb"), ("'a\\\\'", "a\\\\"),
    ("'日本'", "日本"), ("'a\nb'", "a\nb"),
    # attributes
    ("word", "Porto"), ("number", 42), ("flag", True), ("huge", "1099511627776"), ("fraction", "2.5"),
    ("integral", 7),
    ("time", "2026-11-15T10:00:00Z"), ("data.level", 3), ("`temperatura média`", 21), ("9lives", "cat"),
    ("specversion", "1.0"), ("(((number)))", 42),
    # equality casts the left side to the type of the right one
    ("number = 42", True), ("digits = 42", True), ("number = '42'", True), ("'042' = 42", True),
    ("42 = '042'", False),
    ("flag = 1", True), ("flag = 'true'", True), ("TRUE = 'TRUE'", False), ("'TRUE' = TRUE", True),
    ("2 = TRUE", True),
    ("TRUE = 2", False), ("0 = FALSE", True), ("'a' = 'A'", False), ("'a' != 'A'", True), ("'a' <> 'a'", False),
    ("empty = ''", True), ("fraction = '2.5'", True), ("word = word", True), ("1 = 1 = TRUE", True),
    # order is that of integers
    ("digits < 43", True), ("'9' < '10'", True), ("number >= '42'", True), ("42 > 42", False), ("-1 < FALSE", True),
    ("2 <= 1", False), ("3 > TRUE", True),
    # arithmetic
    ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("7 / 2", 3), ("-7 / 2", -3), ("7 / -2", -3), ("7 % 3", 1), ("-7 % 3", -1),
    ("7 % -3", 1), ("10 - 3 - 2", 5), ("100 / 10 / 5", 2), ("digits + TRUE", 43), ("2 - -1", 3), ("2 --1", 3),
    ("-2147483648 % -1", 0), ("- 5", -5), ("--5", 5), ("-'5'", -5), ("-TRUE", -1), ("-negative", 7), ("4 -1", 3),
    ("7 + -3 * 2", 1),
    # logic, and its equal precedence
    ("TRUE AND FALSE", False), ("TRUE OR FALSE", True), ("TRUE XOR TRUE", False), ("NOT flag", False),
    ("NOT 'false'", True), ("TRUE OR TRUE AND FALSE", False), ("TRUE OR (TRUE AND FALSE)", True),
    ("FALSE AND TRUE OR TRUE", True), ("TRUE XOR TRUE OR TRUE", True), ("1 AND 'true'", True), ("yes AND flag", True),
    # NOT binds stronger than LIKE, IN and comparisons
    ("NOT flag = FALSE", True), ("NOT (flag = FALSE)", True), ("NOT yes = 'true'", False),
    ("NOT yes IN (FALSE)", True),
    ("NOT yes LIKE 'false'", True), ("NOT NOT flag", True), ("- 2 * 3", -6), ("1 + 1 = 2 AND 2 * 2 > 3", True),
    ("1 + '2' LIKE '2'", 2), ("2 * 3 IN (3)", 2),
    # short circuits
    ("FALSE AND nothing", False), ("TRUE OR nothing", True), ("FALSE AND 1 / 0 = 1", False),
    ("FALSE AND nothing OR TRUE", True), ("EXISTS nothing AND nothing = 1", False),
    # LIKE
    ("word LIKE 'Porto'", True), ("word LIKE 'P%o'", True), ("word LIKE 'p%'", False), ("word LIKE '_____'", True),
    ("word LIKE '____'", False), ("word NOT LIKE '%t%'", False), ("word LIKE '%'", True), ("empty LIKE '%'", True),
    ("empty LIKE '_'", False), ("empty LIKE ''", True), ("number LIKE '4_'", True), ("flag LIKE 'tr%'", True),
    ("time LIKE '2026-11-15T%'", True), ("'50%' LIKE '50\\%'", True), ("'505' LIKE '50\\%'", False),
    ("'a_b' LIKE 'a\\_b'", True), ("'axb' LIKE 'a\\_b'", False), ("'a\\b' LIKE 'a\\b'", True),
    ("'a*b' LIKE 'a*b'", True),
    ("'axb' LIKE 'a*b'", False), ("'a.b' LIKE 'a.b'", True), ("'axb' LIKE 'a.b'", False), ("'a\nb' LIKE 'a_b'", True),
    ("'😀' LIKE '_'", True), ("'a\\%b' LIKE 'a\\\\%b'", True), ("word LIKE 'P%' LIKE 'true'", True),
    # EXISTS
    ("EXISTS word", True), ("EXISTS empty", True), ("EXISTS nothing", False), ("NOT EXISTS nothing", True),
    ("EXISTS id AND EXISTS type AND EXISTS source AND EXISTS specversion", True),
    ("EXISTS `temperatura média`", True),
    # IN casts its elements to the type of its left side
    ("number IN (1, 42)", True), ("number IN ('41', '42')", True), ("digits IN (42)", True), ("'042' IN (42)", False),
    ("flag IN (1)", True), ("flag IN ('true')", True), ("unset IN (0)", True), ("'true' IN (TRUE)", True),
    ("'TRUE' IN (TRUE)", False),
    ("word IN ('Lisboa', 'Porto')", True), ("word NOT IN ('Lisboa')", True), ("number IN (number + 0, 1 / 0)", True),
    ("word IN (type, word)", True), ("huge IN (1, '1099511627776')", True),
    # functions
    ("LENGTH(word)", 5), ("LENGTH('')", 0), ("LENGTH(FALSE)", 5), ("LENGTH('😀é')", 2), ("CONCAT()", ""),
    ("CONCAT(word, '-', 4, TRUE)", "Porto-4true"), ("CONCAT_WS('/')", ""), ("CONCAT_WS('/', 'a')", "a"),
    ("CONCAT_WS('/', 'a', '', 'b')", "a//b"), ("LOWER('ÀB1')", "àb1"), ("UPPER('àb1')", "ÀB1"),
    ("TRIM(padded)", "42"), ("TRIM('\u2003\u00a0a b\u3000\n')", "a b"), ("TRIM('\x1ca\x1f')", "\x1ca\x1f"),
    ("LEFT(word, 2)", "Po"), ("LEFT(word, 0)", ""), ("LEFT(word, 99)", "Porto"), ("RIGHT(word, 2)", "to"),
    ("RIGHT(word, 0)", ""), ("RIGHT(word, 99)", "Porto"), ("LEFT(12345, '2')", "12"), ("SUBSTRING(word, 2)", "orto"),
    ("SUBSTRING(word, -2)", "to"), ("SUBSTRING(word, 0)", ""), ("SUBSTRING(word, 5)", "o"),
    ("SUBSTRING(word, -5)", "Porto"),
    ("SUBSTRING(word, 2, 3)", "ort"), ("SUBSTRING(word, -3, 2)", "rt"), ("SUBSTRING(word, 0, 3)", ""),
    ("SUBSTRING(word, 2, 0)", ""), ("SUBSTRING(word, 4, 99)", "to"), ("SUBSTRING('', 0)", ""), ("ABS(-5)", 5),
    ("ABS('-5')", 5), ("ABS(TRUE)", 1), ("INT('+012')", 12), ("INT('-0')", 0), ("INT(TRUE)", 1), ("INT(5)", 5),
    ("BOOL('FaLsE')", False), ("BOOL(-3)", True), ("BOOL(0)", False), ("BOOL(TRUE)", True), ("STRING(-3)", "-3"),
    ("STRING(TRUE)", "true"), ("STRING('x')", "x"), ("STRING(huge)", "1099511627776"), ("IS_INT('12')", True),
    ("IS_INT('1.2')", False), ("IS_INT('2147483648')", False), ("IS_INT(TRUE)", True), ("IS_BOOL('True')", True),
    ("IS_BOOL('yes')", False), ("IS_BOOL(0)", True), ("length(word)", 5), ("Is_Int (7)", True),
    ("INT('000000000000000000000000000000012')", 12),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), VALUES, ids=[text for text, _ in VALUES])
def test_value(text, value):
    result = cesql.evaluate(text, VIEW)
    assert result == cesql.Result(value)
    assert type(result.value) is type(value)
    assert cesql.accepts(text, VIEW) is (value is True)


ERRORS = [
    # missing attributes: the zero value of what is asked for
    ("nothing", False, "missingAttribute"), ("NOT nothing", False, "missingAttribute"),
    ("nothing = ''", False, "missingAttribute"), ("nothing != 1", False, "missingAttribute"),
    ("nothing < 1", False, "missingAttribute"), ("-nothing", 0, "missingAttribute"),
    ("nothing * 5", 0, "missingAttribute"), ("1 / nothing", 0, "missingAttribute"),
    ("nothing / 0", 0, "missingAttribute"), ("nothing LIKE '%'", False, "missingAttribute"),
    ("nothing NOT LIKE 'a'", False, "missingAttribute"), ("nothing IN (1)", False, "missingAttribute"),
    ("nothing NOT IN (1)", False, "missingAttribute"), ("number IN (nothing, 42)", False, "missingAttribute"),
    ("LENGTH(nothing)", 0, "missingAttribute"), ("LOWER(nothing)", "", "missingAttribute"),
    ("IS_INT(nothing)", False, "missingAttribute"), ("CONCAT('a', nothing)", "", "missingAttribute"),
    ("TRUE AND nothing = ''", False, "missingAttribute"), ("nothing OR TRUE", False, "missingAttribute"),
    ("nothing AND FALSE", False, "missingAttribute"), ("TRUE XOR nothing", False, "missingAttribute"),
    ("FALSE OR nothing", False, "missingAttribute"), ("NOT (nothing = 1)", False, "missingAttribute"),
    # casts
    ("word = 5", False, "cast"), ("word != 5", False, "cast"), ("word = TRUE", False, "cast"),
    ("padded = 42", False, "cast"),
    ("NOT word", False, "cast"), ("word AND TRUE", False, "cast"), ("TRUE AND word", False, "cast"),
    ("TRUE XOR word", False, "cast"), ("-word", 0, "cast"), ("word + 1", 0, "cast"), ("1 + word", 0, "cast"),
    ("word < 5", False, "cast"), ("5 < word", False, "cast"), ("huge > 5", False, "cast"),
    ("fraction > 1", False, "cast"),
    ("'2147483648' = 1", False, "cast"), ("'-2147483649' = 1", False, "cast"), ("'' = 0", False, "cast"),
    ("'+' = 0", False, "cast"), ("'1_0' = 10", False, "cast"), ("'٣' = 3", False, "cast"),
    ("' 3' = 3", False, "cast"),
    ("number IN ('a', 42)", False, "cast"), ("flag IN ('yes')", False, "cast"), ("INT('ABC')", 0, "cast"),
    ("INT('')", 0, "cast"), ("BOOL('1')", False, "cast"), ("LEFT(word, word)", "", "cast"), ("ABS(word)", 0, "cast"),
    # arithmetic
    ("5 / 0", 0, "math"), ("5 % 0", 0, "math"), ("2147483647 + 1", 0, "math"), ("-2147483648 - 1", 0, "math"),
    ("65536 * 32768", 0, "math"), ("-2147483648 / -1", 0, "math"), ("-(-2147483648)", 0, "math"),
    ("ABS(-2147483648)", INT_MAX, "math"), ("1 + ABS(-2147483648)", 0, "math"),
    ("TRUE AND 1 != 1 / 0", False, "math"),
    ("FALSE OR 1 / 0 = 0", False, "math"),
    # functions
    ("LEFT('abc', -1)", "abc", "functionEvaluation"), ("RIGHT('abc', -1)", "abc", "functionEvaluation"),
    ("LENGTH(LEFT('abc', -1))", 0, "functionEvaluation"), ("LEFT(LEFT('abc', -1), 1)", "", "functionEvaluation"),
    ("SUBSTRING('abc', 4)", "", "functionEvaluation"), ("SUBSTRING('abc', -4)", "", "functionEvaluation"),
    ("SUBSTRING('abc', 4, 1)", "", "functionEvaluation"), ("SUBSTRING('abc', 1, -1)", "", "functionEvaluation"),
    ("SUBSTRING('', 1)", "", "functionEvaluation"), ("CONCAT_WS()", False, "missingFunction"),
    ("NOSUCH(1)", False, "missingFunction"), ("ABS()", False, "missingFunction"),
    ("LENGTH(1, 2)", False, "missingFunction"),
    ("NOSUCH(nothing)", False, "missingFunction"), ("1 + NOSUCH()", 0, "missingFunction"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value", "kind"), ERRORS, ids=[text for text, *_ in ERRORS])
def test_error(text, value, kind):
    result = cesql.evaluate(text, VIEW)
    assert (result.value, result.error.kind) == (value, kind)
    assert type(result.value) is type(value)
    assert result.error.message
    assert not cesql.accepts(text, VIEW)


def test_every_function_is_in_the_tables():
    texts = " ".join(text for text, *_ in VALUES).upper()
    assert all(f"{function.name}(" in texts for function in FUNCTIONS)


def test_a_text_that_grows_too_long_is_an_error():
    nested = "word"
    for _ in range(12):
        nested = f"CONCAT_WS({nested}, {', '.join(['word'] * 12)})"
    result = cesql.evaluate(f"LENGTH({nested}) > 1", VIEW)
    assert result.error.kind == "functionEvaluation"
    assert cesql.evaluate(nested, VIEW).value == ""


REPRESENTED = [
    ("a", "a"), (True, True), (5, 5), (5.0, 5), (-0.0, 0), (INT_MAX, INT_MAX), (INT_MAX + 1, "2147483648"),
    (INT_MIN - 1, "-2147483649"), (float(2**40), "1099511627776"), (0.1, "0.1"), (1e300, "1e+300"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"), (math.nan, "NaN"), (2**64 - 1, "18446744073709551615"),
    (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
    (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "2026-01-01T02:00:00+02:00"),
    (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=-9, minutes=-30))), "2026-01-01T02:00:00-09:30"),
    (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(0))), "2026-01-01T02:00:00Z"),
    (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2, seconds=1))), "2025-12-31T23:59:59Z"),
    (datetime(2026, 1, 1, 0, 0, 0, 1500, tzinfo=UTC), "2026-01-01T00:00:00.001500Z"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "cesql_value"), REPRESENTED)
def test_how_values_are_represented(value, cesql_value):
    found = represent(value)
    assert found == cesql_value
    assert type(found) is type(cesql_value)


@settings(max_examples=100)
@given(values())
def test_a_value_is_among_the_spellings_of_its_text(value):
    found = spellings(to_string(represent(value)))
    assert (found is None) == isinstance(value, datetime)
    assert found is None or any(type(represent(other)) is type(represent(value)) and other == value for other in found)


@pytest.mark.parametrize("text", ["NaN", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001+01:00"])
def test_what_no_filter_can_name_has_no_spelling(text):
    assert spellings(text) is None


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00+00:00", "2026-01-01t00:00:00Z", "2026-01-01T00:00:00.50Z"])
def test_what_is_not_the_text_of_an_instant_is_a_string(text):
    assert spellings(text) == [text]


@pytest.mark.parametrize("form", ["flat", "cloudevent"])
def test_a_timestamp_has_its_own_text(form):
    members = {"id": "1", "source": "s", "type": "t", "time": "2018-04-26T14:48:09+02:00", "at": "x"}
    if form == "cloudevent":
        members["specversion"] = "1.0"
    view = dict(read_event(members).items())
    assert cesql.evaluate("time", view) == cesql.Result("2018-04-26T14:48:09+02:00")
    assert cesql.accepts("time = '2018-04-26T14:48:09+02:00'", view)
    assert not cesql.accepts("time = '2018-04-26T12:48:09Z'", view)


@pytest.mark.parametrize("text", ["EXISTS SOURCE", "exists Id", "EXISTS tYpE", "EXISTS SpecVersion"])
def test_required_attributes_exist_in_any_case(text):
    view = dict(read_event({"specversion": "1.0", "id": "1", "source": "s", "type": "t"}).items())
    assert cesql.evaluate(text, view) == cesql.Result(True)
    assert matches(cesql.to_filter(text), read_event({"id": "1", "source": "s", "type": "t"}))


def test_another_attribute_of_such_a_name_stands_between_back_quotes():
    assert cesql.evaluate("EXISTS `SOURCE`", {"source": "s"}) == cesql.Result(False)
    assert cesql.evaluate("EXISTS `SOURCE`", {"SOURCE": "s"}) == cesql.Result(True)
    assert cesql.format_node(cesql.parse("EXISTS `SOURCE` OR EXISTS Type")) == "EXISTS `SOURCE` OR EXISTS type"


@pytest.mark.parametrize("text", ["NOT 10", "NOT 0", "NOT (1 + 1)", "NOT number"])
def test_not_casts_no_integer(text):
    result = cesql.evaluate(text, {"number": 10})
    assert result.value is True
    assert result.error.kind == "cast"
    assert not matches(cesql.to_filter(text), Event("1", attributes={"number": 10}))
    assert not matches(cesql.to_filter(f"NOT ({text})"), Event("1", attributes={"number": 10}))


def test_other_operators_cast_integers_to_booleans():
    assert cesql.evaluate("BOOL(10) AND 10", {}) == cesql.Result(True)
    assert cesql.evaluate("NOT BOOL(10)", {}) == cesql.Result(False)


@settings(max_examples=120)
@given(expressions(), events())
def test_evaluation_never_raises_and_accepts_means_true_without_error(text, event):
    view = {name: value for name, value in event.items() if not isinstance(value, tuple)}
    result = cesql.evaluate(text, view)
    assert type(result.value) in (str, int, bool)
    assert cesql.accepts(text, view) == (result.value is True and result.error is None)


@settings(max_examples=120)
@given(expressions())
def test_what_is_written_reads_back(text):
    node = cesql.parse(text)
    assert cesql.parse(cesql.format_node(node)) == node
    assert cesql.format_node(cesql.parse(cesql.format_node(node))) == cesql.format_node(node)


@settings(max_examples=100)
@given(st.text(alphabet="ab'\"\\%_`\n", max_size=8), st.sampled_from("'\""))
def test_string_literals_read_back(content, quote):
    literal = quote + content.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote
    node = cesql.parse(literal)
    assert cesql.parse(cesql.format_node(node)) == node


FORMATTED = [
    ("a=1 and b<>2", "a = 1 AND b != 2"),
    ("((a)) + (b * c)", "a + b * c"),
    ("(a + b) * c", "(a + b) * c"),
    ("a - (b - c)", "a - (b - c)"),
    ("not(a = b)", "NOT (a = b)"),
    ("(not a) = b", "NOT a = b"),
    ("-  5", "- 5"),
    ("length( x )>+1", "LENGTH(x) > 1"),
    ("x not in(1,'a')", "x NOT IN (1, 'a')"),
    ("(x like 'a') like 'b'", "x LIKE 'a' LIKE 'b'"),
    ("exists `in`", "EXISTS `in`"),
    ("`a\\`b\\\\` = 1", "`a\\`b\\\\` = 1"),
    ("'it\\'s' = \"it's\"", "'it\\'s' = 'it\\'s'"),
    ("'\\\"'", "'\\\"'"),
    ('"\\\'"', '"\\\'"'),
]


@pytest.mark.parametrize(("text", "formatted"), FORMATTED)
def test_canonical_text(text, formatted):
    assert cesql.format_node(cesql.parse(text)) == formatted
    assert cesql.parse(formatted) == cesql.parse(text)


def test_names():
    assert cesql.names("a = 1 AND (EXISTS b OR LENGTH(c.d) IN (`e f`, 'g'))") == {"a", "b", "c.d", "e f"}
    assert names_of(Sql("a = b")) == {"a", "b"}


def test_as_a_filter_node():
    event = Event("1", type="t", attributes={"level": (1, 5), "word": "x"})
    assert matches(Sql("level > 3 AND word = 'x'"), event)
    assert not matches(Sql("level > 1 AND level < 5"), event)
    assert not matches(Sql("nothing = 1"), event)
    assert matches(Not(Sql("nothing = 1")), event)
