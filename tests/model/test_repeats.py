"""A repeated key is refused with its name and place, whatever the text looks like; nothing else is."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.errors import EventError
from recado.model.codec import read_batch, read_event
from recado.model.flat import refuse_repeats

KEYS = ["a", "b", "", ":", '"', "\\", 'a"', 'x":y', "a b", "\n:", "é", "a\\", '\\":', "日本"]


class Objects(list):
    """The members of an object, in which a key may stand twice."""


def documents(repeats):
    scalars = (
        st.none()
        | st.booleans()
        | st.integers(-5, 5)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.sampled_from(KEYS)
    )
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.lists(
            st.tuples(st.sampled_from(KEYS), inner), max_size=4, unique_by=None if repeats else lambda pair: pair[0]
        ).map(Objects),
        max_leaves=12,
    )  # fmt: skip


def written(value, space, ascii):
    if isinstance(value, Objects):
        inner = (f"{json.dumps(key, ensure_ascii=ascii)}{space}:{written(v, space, ascii)}" for key, v in value)
        return "{" + f",{space}".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(element, space, ascii) for element in value) + "]"
    return json.dumps(value, ensure_ascii=ascii)


def has_repeats(value):
    if isinstance(value, Objects):
        return len({key for key, _ in value}) < len(value) or any(has_repeats(member) for _, member in value)
    return isinstance(value, list) and any(map(has_repeats, value))


@settings(max_examples=400)
@given(documents(True) | documents(False), st.sampled_from(["", " ", "\n\t"]), st.booleans())
def test_refused_exactly_if_an_object_repeats_a_key(document, space, ascii):
    raw = written(document, space, ascii).replace("\\u65e5", "\\u003a").encode()
    try:
        refuse_repeats(raw, msgspec.json.decode(raw), EventError)
        refused = False
    except EventError:
        refused = True
    assert refused is has_repeats(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "1", "a": 1, "a": 1}', "$: the key 'a' is given twice"),
        ('{"id": "1", "id": "2"}', "$: the key 'id' is given twice"),
        ('{"id" :"1","a" :{"b":1,"c":2,"b" :3}}', "$.a: the key 'b' is given twice"),
        ('{"id": "1", "items": [{"x": 1}, {"x": "a:b", "x": 2}]}', "$.items[1]: the key 'x' is given twice"),
        ('{"id": "1", "t": "\\":", "t": 5}', "$: the key 't' is given twice"),
        ('{"id": "1", "a": 1, "\\u0061": 2}', "$: the key 'a' is given twice"),
        ('{"id": "1", "a": {"$time": "2026-01-01T00:00:00Z", "$time": "x"}}', "$.a: the key '$time' is given twice"),
        (
            '{"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": {"a": {"b": 1, "b": 2}}}',
            "$.data.a: the key 'b' is given twice",
        ),
        ('{"specversion": "1.0", "id": "1", "source": "s", "type": "t", "type": "u"}', "$: the key 'type' is given"),
        ('{"id": "1", "' + "k" * 1000 + '": 1, "' + "k" * 1000 + '": 2}', "kkk' is given twice"),
    ],
)
def test_the_message_names_the_place_and_the_key(text, message):
    for raw in (text, text.encode()):
        with pytest.raises(EventError) as caught:
            read_event(raw)
        assert message in str(caught.value)
        assert len(str(caught.value)) < 500


def test_a_batch_names_the_event():
    with pytest.raises(EventError, match=r"event 1 of the batch: \$: the key 'a' is given twice"):
        read_batch('[{"id": "1", "a": 1}, {"id": "2", "a": 1, "a": 2}]')


def test_deep_nesting_that_must_be_looked_at_is_refused():
    deep = "[" * 900 + '{"a": 1, "a": 2}' + "]" * 900
    with pytest.raises(EventError):
        read_event('{"id": "1", "x": ' + deep + "}")
