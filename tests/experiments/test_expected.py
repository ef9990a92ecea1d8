"""Verdicts: nothing holds that was not measured, and a reason belongs to the outcome it was written for."""

import math

import pytest

from experiments.expected import Check, Claim, ExperimentError, Value, condition, judge, read_expected, show


def value(published, measure="m", **more):
    return Value(id="v", place="p", printed=True, what="w", published=published, measure=measure, **more)


def claim(*checks, **more):
    return Claim(id="c", place="p", printed=True, text="t", checks=checks, **more)


@pytest.mark.parametrize(
    ("published", "tolerance", "measured", "verdict"),
    [
        (26, 0, 26.0, "holds"),
        (26, 0, 27, "differs"),
        (26, 1, 27, "holds"),
        (26, 0, None, "not measured"),
        ("J / L", 0, "J / L", "holds"),
        ("K / L", 0, "J / L", "differs"),
    ],
)
def test_values(published, tolerance, measured, verdict):
    numbers = {} if measured is None else {"m": measured}
    assert judge(value(published, tolerance=tolerance), numbers).verdict == verdict


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        ({"at_least": 3}, "holds"),
        ({"at_least": 4}, "differs"),
        ({"at_most": 3}, "holds"),
        ({"at_least": 1, "at_most": 2}, "differs"),
        ({"at_most": 0, "than": "other"}, "holds"),
        ({"at_most": 0, "than": "other", "factor": 0.5}, "differs"),
        ({"at_least": 0, "than": "other", "factor": 0.5}, "holds"),
        ({"at_most": 0, "than": "nothing"}, "not measured"),
    ],
)
def test_checks(check, verdict):
    assert judge(claim(Check(what="w", measure="m", **check)), {"m": 3.0, "other": 4.0}).verdict == verdict


def test_a_claim_holds_if_all_its_checks_do():
    good, bad = Check(what="g", measure="m", at_least=1), Check(what="b", measure="m", at_least=9)
    judged = judge(claim(good, bad), {"m": 3})
    assert (judged.verdict, judged.passed, judged.shown) == ("differs", (True, False), ("3", "3"))
    missing = Check(what="x", measure="x", at_least=1)
    assert judge(claim(bad, missing), {"m": 3}).verdict == "not measured"


def test_what_a_quick_run_cannot_tell_is_not_judged():
    line = value(26, quick=False)
    assert judge(line, {"m": 27}, quick=True).verdict == "not measured"
    assert judge(line, {"m": 27}).verdict == "differs"


def test_a_reason_is_shown_only_for_the_outcome_it_explains():
    line = value(26, expect="differs", reason="because")
    assert (judge(line, {"m": 27}).reason, judge(line, {"m": 27}).surprising) == ("because", False)
    assert (judge(line, {"m": 26}).reason, judge(line, {"m": 26}).surprising) == ("", True)
    assert (judge(line, {}).reason, judge(line, {}).surprising) == ("", False)
    assert judge(value(26), {"m": 27}).surprising


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("document = 3", "Expected `str`, got `int` - at `$.document`"),
        ("x = ", "Invalid value"),
        ('document = "d"\nclaims = []\nvalues = []\nmore = 1', "unknown field `more`"),
    ],
)
def test_errors_name_the_place(text, message):
    with pytest.raises(ExperimentError) as caught:
        read_expected(text, "expected.toml")
    assert str(caught.value).startswith("expected.toml: ")
    assert message in str(caught.value)


def entry(id, **more):
    fields = {"id": id, "place": "p", "printed": "true", "what": "w", "published": "1", "measure": "m", **more}
    lines = [f"{name} = {text if text in ('true', '1') else chr(34) + text + chr(34)}" for name, text in fields.items()]
    return "[[values]]\n" + "\n".join(lines) + "\n"


def test_lines_have_ids_of_their_own_and_differences_have_reasons():
    start = 'document = "d"\nclaims = []\n'
    with pytest.raises(ExperimentError, match="two lines have the id 'a'"):
        read_expected(start + entry("a") + entry("a"), "e")
    with pytest.raises(ExperimentError, match="a is expected to differ, and no reason says why"):
        read_expected(start + entry("a", expect="differs"), "e")
    assert read_expected(start + entry("a"), "e").values[0].published == 1


def test_numbers_are_written_as_people_do():
    assert [show(number) for number in (26.0, 1234, 0.12345, 12.345, 1234.56, math.inf, None, "J")] == [
        "26", "1,234", "0.123", "12.3", "1,234.6", "never", "–", "J",
    ]  # fmt: skip


def test_conditions_in_words():
    numbers = {"other": 4.0}
    checks = [
        {"at_most": 3}, {"at_least": 1, "at_most": 2}, {"at_most": 0, "than": "other"}, {"at_least": 2, "at_most": 2},
        {"at_least": 0, "than": "other", "factor": 0.5}, {"at_least": -1, "at_most": 1, "than": "other"},
    ]  # fmt: skip
    assert [condition(Check(what="w", measure="m", **check), numbers) for check in checks] == [
        "at most 3",
        "at least 1 and at most 2",
        "at most 4 (other)",
        "2",
        "at least 2 (0.5 × other)",
        "about 4 (other)",
    ]
