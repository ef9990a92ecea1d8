"""What a decoder complains about says where, what, and what would be right."""

from typing import Annotated, Literal

import msgspec
import pytest

from recado.errors import RecadoError
from recado.filters.records import read_subscription
from recado.model.codec import read_event
from recado.model.decoding import explain, find_lone_surrogate
from recado.protocols.session import messages as m


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    unit: Literal["seconds", "minutes"] = "seconds"
    since: str | None = None


class First(msgspec.Struct, tag="FIRST"):
    number: Annotated[int, msgspec.Meta(le=10)]


class Second(msgspec.Struct, tag="SECOND"):
    inner: list[Inner] = []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"type": "FIRST", "number": "x"}', "$.number: must be a whole number, not a text"),
        ('{"type": "FIRST", "number": 11}', "$.number: must be a whole number of at most 10"),
        ('{"type": "FIRST"}', "$: lacks the member `number`"),
        ('{"type": "THIRD"}', "$.type: 'THIRD' is none of FIRST, SECOND"),
        ("{}", "$: lacks the member `type`, which is one of FIRST, SECOND"),
        (
            '{"type": "SECOND", "inner": [{}, {"unit": "year"}]}',
            "$.inner[1].unit: 'year' is none of minutes, seconds",
        ),
        ('{"type": "SECOND", "inner": [{"since": 5}]}', "$.inner[0].since: must be a text or null, not a whole number"),
        ('{"type": "SECOND", "inner": [{"sinc": 5}]}', "$.inner[0]: there is no member `sinc`; there are unit, since"),
        ('{"type": "SECOND", "inner": 5}', "$.inner: must be a list, not a whole number"),
        ('{"type": "FIRST", "number": 5', "$: the JSON text ends too early"),
        ('{"type": "\\ud800"}', "$: a string has a lone surrogate, \\ud800, at byte 11; it is half of a character"),
        ("{'a'}", "$: JSON is malformed"),
    ],
)
def test_an_error_names_the_place_and_what_would_be_right(text, expected):
    with pytest.raises(msgspec.DecodeError) as found:
        msgspec.json.decode(text, type=First | Second)
    assert explain(found.value, First | Second, text).startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb'"\ud800"', (1, "\\ud800")),
        (rb'"\udc00"', (1, "\\udc00")),
        (rb'"\ud83d\ude00"', None),
        (rb'"\ud83d\ude00\ud83d"', (13, "\\ud83d")),
        (rb'"\ud83dx\ude00"', (1, "\\ud83d")),
        (rb'"\ud83d\n"', (1, "\\ud83d")),
        (rb'"\\ud800"', None),
        (rb'"\\\ud800"', (3, "\\ud800")),
        (rb'"\u00e9"', None),
    ],
)
def test_lone_surrogates_are_found(text, expected):
    assert find_lone_surrogate(text) == expected


@pytest.mark.parametrize("escape", ["\\ud800", "\\udc00", "x\\ud83d", "\\ud83d\\n"])
@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_event, '{"id": "1", "a": "%s"}'),
        (read_event, '{"id": "1", "%s": 1}'),
        (read_subscription, '{"id": "s", "filter": "a == \'%s\'"}'),
        (m.from_agent, '{"type": "HELLO", "device": "%s"}'),
        (m.from_agent, '[{"type": "PUBLISH", "req": 1, "event": {"a": "%s"}}]'),
    ],
)
def test_a_lone_surrogate_is_called_so_wherever_json_is_read(read, text, escape):
    with pytest.raises(RecadoError, match="lone surrogate"):
        read((text % escape).encode())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"type": "NOPE", "req": 1}', "$.type: 'NOPE' is none of HELLO, SUBSCRIBE, UNSUBSCRIBE, RENEW, QUERY_SUBS"),
        ('[{"type": "NOPE"}]', r"$[0].type: 'NOPE' is none of HELLO"),
        ('{"type": "RENEW", "req": 1, "sub_id": "a", "expires_at": 5}', "$.expires_at: must be a text or null"),
        ('{"type": "PUBLISH"}', "$: lacks the member `req`"),
        ("5", "$: must be an object or a list, not a whole number"),
    ],
)
def test_messages_of_a_session_that_are_none_say_what_would_be_one(text, expected):
    with pytest.raises(m.MessageError) as found:
        m.from_agent(text)
    assert expected in str(found.value)


@pytest.mark.parametrize(
    ("text", "reqs"),
    [
        ('{"type": "NOPE", "req": 7}', [7]),
        ('[{"type": "PING", "req": 1}, {"type": "NOPE", "req": 2}, {"type": "NOPE"}]', [1, 2]),
        ('{"type": "NOPE", "req": "x"}', []),
        ('{"type": "NOPE", "req": true}', []),
        ("5", []),
        ("{", []),
    ],
)
def test_a_frame_that_is_refused_names_the_requests_in_it(text, reqs):
    with pytest.raises(m.MessageError) as found:
        m.from_agent(text)
    assert found.value.reqs == reqs
