"""Texts in, pairs out: always what reading each text and asking the naive evaluator gives."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matching.text_cases import HOSTILE, NAMES, OTHER_NAMES, TIMES, filters, texts
from recado.errors import EventError
from recado.matching.batch import match_texts
from recado.matching.index import Index
from recado.matching.json_texts import Texts, from_lines, joined
from recado.matching.naive import NaiveMatcher
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.filter import Compare, Or, Text
from recado.model.limits import LIMITS, Limits
from recado.model.subscription import Subscription
from recado.model.values import microseconds
from strategies import STRINGS

Result = list[tuple[str, int | None, list[str]] | str]
"""Of each text: the id and time of its event and the subscriptions that it matches, or what is wrong with it."""


@pytest.fixture(scope="module", params=[False, True], ids=["", "with ids"])
def both(request: pytest.FixtureRequest) -> tuple[Index, NaiveMatcher]:
    index, naive = Index(), NaiveMatcher()
    subscriptions = [Subscription(f"s{number}", filter) for number, filter in enumerate(filters(request.param))]
    index.add_many(subscriptions)
    for subscription in subscriptions:
        naive.add(subscription)
    return index, naive


def expected(naive: NaiveMatcher, some: Sequence[bytes], limits: Limits, default_id: str | None) -> Result:
    out: Result = []
    for text in some:
        try:
            event = read_event(text, default_id=default_id, limits=limits)
        except EventError as error:
            out.append(str(error))
        else:
            time = None if event.time is None else microseconds(event.time)
            out.append((event.id, time, sorted(naive.match(event))))
    return out


def found(
    index: Index,
    some: Sequence[bytes],
    limits: Limits = LIMITS,
    default_id: str | None = "none",
    texts: Texts | None = None,
) -> tuple[Result, int]:
    """The same through columns, and how many texts were left to the reader."""
    errors: dict[int, str] = {}

    def reader(number: int) -> Event | None:
        try:
            return read_event(some[number], default_id=default_id, limits=limits)
        except EventError as error:
            errors[number] = str(error)
            return None

    result = match_texts(index, texts or joined(some), reader, limits=limits, needs_id=default_id is None)
    names = result.pairs.ids(index).to_pylist()
    times, has_time = result.times()
    out: Result = []
    places = pairwise(result.pairs.offsets.tolist())
    for number, (id, (start, end)) in enumerate(zip(result.ids(lambda _: str(default_id)), places, strict=True)):
        if number in errors:
            assert id is None
            assert start == end
            out.append(errors[number])
        else:
            assert id is not None
            out.append((id, int(times[number]) if has_time[number] else None, sorted(names[start:end])))
    return out, len(result.read) + len(errors)


def check(
    both: tuple[Index, NaiveMatcher], some: Sequence[bytes], limits: Limits = LIMITS, default: str | None = "none"
) -> int:
    index, naive = both
    result, left = found(index, some, limits, default)
    for text, one, other in zip(some, result, expected(naive, some, limits, default), strict=True):
        assert one == other, text[:2_000]
    return left


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=9), st.sampled_from(STRINGS)
)
OBJECTS = st.dictionaries(
    st.sampled_from([*NAMES, *OTHER_NAMES]) | st.text(max_size=4),
    st.recursive(
        SCALARS | st.sampled_from(TIMES),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc") | st.text(max_size=3), inner)
        ),
        max_leaves=6,
    ),
    max_size=6,
)


@settings(max_examples=settings.default.max_examples // 2)  # each of two sets of texts
@given(st.lists(st.tuples(OBJECTS, st.booleans(), st.sampled_from([None, 1])), max_size=5))
def test_any_object(both: tuple[Index, NaiveMatcher], drawn: list[tuple[dict[str, Any], bool, int | None]]) -> None:
    check(both, [json.dumps(one, ensure_ascii=a, indent=i).encode(errors="surrogatepass") for one, a, i in drawn])


@given(st.lists(st.binary(max_size=40).map(lambda raw: b'{"a":' + raw), max_size=5))
def test_any_bytes(both: tuple[Index, NaiveMatcher], drawn: list[bytes]) -> None:
    check(both, drawn)


@given(st.from_regex(r"-?[0-9]{1,25}(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
def test_any_number(both: tuple[Index, NaiveMatcher], number: str) -> None:
    """The very value, and not one near it."""
    index, naive = Index(), NaiveMatcher()
    try:
        value = read_event(f'{{"id":"1","n":{number}}}').attributes["n"]
    except EventError:
        value = 1
    for id, filter in (
        ("eq", Compare("n", "==", value)),
        ("lt", Compare("n", "<", value)),
        ("gt", Compare("n", ">", value)),
    ):  # type: ignore[arg-type]
        index.add(Subscription(id, filter))
        naive.add(Subscription(id, filter))
    check((index, naive), [f'{{"n":{number}}}'.encode(), b'{"n":0.1}'])


@pytest.mark.parametrize("name", ["string_chars", "name_chars", "attributes", "nesting", "event_bytes"])
def test_every_limit(both: tuple[Index, NaiveMatcher], name: str) -> None:
    """On both sides of each limit, whatever it is."""
    for limit in (1, 2, 3, 5, 12):
        limits = msgspec.structs.replace(LIMITS, **{name: limit})
        some = []
        for size in (limit - 1, limit, limit + 1):
            some += [
                b'{"a":"' + b"x" * size + b'"}',
                '{{"a":"{}"}}'.format("é" * size).encode(),
                b'{"' + b"x" * size + b'":1}',
                b'{"a":{"' + b"x" * size + b'":1}}',
                b"{" + b",".join(b'"n%d":1' % n for n in range(size)) + b"}",
                b'{"a":' * size + b"1" + b"}" * size,
                b'{"a":1}' + b" " * size,
            ]
        check(both, some, limits)


def test_lines_and_their_ends(both: tuple[Index, NaiveMatcher]) -> None:
    index, naive = both
    lines = [b'{"id":"1","a":1}\r', b"", b'{"a":"abc"}', b"  \t", b'{"a":', b'{"b":true}']
    for last in (b"", b"\n"):
        texts = from_lines(b"\n".join(lines) + last)
        assert texts.size == len(lines)
        result, _ = found(index, lines, texts=texts)
        assert result == expected(naive, lines, LIMITS, "none")
    assert from_lines(b"").size == 0
    assert from_lines(b"\n\n").size == 2


def test_more_texts_than_a_batch_holds(both: tuple[Index, NaiveMatcher]) -> None:
    """Borders of batches, new words in each, and words that are forgotten in between."""
    index, _ = both
    some = [b'{"id":"e\\n%d","a":"W%d","c":"w\\u00e9%d","x":%d}' % (n, n, n, n % 3) for n in range(20_000)]
    some[8_191] = some[8_192] = b'{"a":[1,2]}'
    result, left = found(index, some)
    assert left == 2
    for number in (0, 1, 8_190, 8_191, 8_192, 8_193, 16_383, 16_384, 19_999):
        assert result[number] == found(index, [some[number]])[0][0]


def test_a_code_is_never_older_than_the_filters() -> None:
    """Words are remembered with their codes; a subscription that comes or goes makes them be forgotten."""
    index = Index()
    index.add(Subscription("1", Compare("a", "==", "x")))
    some = [b'{"id":"1","a":"x","b":"y"}', b'{"id":"2","a":"z","b":true}'] * 2

    def ids() -> list[list[str]]:
        return [one[2] for one in found(index, some)[0] if not isinstance(one, str)]

    assert ids() == [["1"], []] * 2
    index.add(Subscription("2", Compare("a", "==", "z")))
    assert ids() == [["1"], ["2"]] * 2
    index.add(Subscription("3", Or((Compare("b", "==", True), Text("b", "prefix", "Y", True)))))
    assert ids() == [["1", "3"], ["2", "3"]] * 2
    index.remove("1")
    index.add(Subscription("4", Compare("b", "==", "y")))
    assert ids() == [["3", "4"], ["2", "3"]] * 2


def test_many_attributes() -> None:
    """More than a batch has rows for: the rest finds room in another one."""
    index, naive = Index(), NaiveMatcher()
    for number in range(3_000):
        index.add(Subscription(f"s{number}", Compare(f"n{number}", ">=", number)))
        naive.add(Subscription(f"s{number}", Compare(f"n{number}", ">=", number)))
    some = [
        b"{" + b",".join(b'"n%d":%d' % (n, n - n % 2) for n in range(first, first + 500)) + b"}"
        for first in range(0, 2_500, 125)
    ]
    assert check((index, naive), some) == 0


def test_hostile_texts(both: tuple[Index, NaiveMatcher]) -> None:
    assert check(both, HOSTILE) < len(HOSTILE)
    check(both, HOSTILE, default=None)
    for text in HOSTILE[::3]:
        check(both, [text])


@pytest.mark.parametrize("seed", range(4))
def test_random_texts(both: tuple[Index, NaiveMatcher], seed: int) -> None:
    rng = random.Random(seed)
    some = texts(rng, 800)
    left = check(both, some, default=None if seed == 3 else "none")
    assert left < 0.8 * len(some)  # or nothing was tested
