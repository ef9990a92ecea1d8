"""JSON texts that are hard on a reader: every kind of value and spelling, every limit, and texts that are nearly JSON.

``texts`` draws many at once from a random generator; ``HOSTILE`` are those that somebody thought of.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from recado.model.filter import And, Between, Compare, Exists, Filter, In, Not, Or, Regex, Text
from recado.model.values import parse_time
from strategies import STRINGS

NAMES = [
    "a",
    "b",
    "c",
    "price",
    "data.level",
    "temperatura média",
    "a.b",
    "a.b.c",
    "ünï-☃",
    "x",
    "type",
    "source",
    "id",
]
OTHER_NAMES = [
    "time",
    "specversion",
    "$extensions",
    "data",
    "",
    "d",
    "unknown",
    "a.",
    ".",
    "$time",
    "$number",
    "é" * 128,
]
NUMBERS = [
    "0", "-0", "1", "-1", "2", "1.0", "1e0", "1E+0", "10e-1", "0.1", "0.10", "1.5", "2.5", "1e2", "100", "0.0", "-0.0",
    "9007199254740992", "9007199254740993", "9007199254740993.0", "-9007199254740993", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
    "18446744073709551616", "1e22", "1e23", "1e300", "1e308", "1e309", "-1e309", "5e-324", "1e-400", "0e999", "0e-999",
    "0.30000000000000004", "0.13436424411240122", "123456789.123456789123456789", "1.7976931348623157e308", "00", "01",
    "-", "+1", ".5", "1.", "1e", "1e+", "1.e1", "0x1", "NaN", "Infinity", "-Infinity", "1_0", "1 ",
    "1.0000000000000002",
    "9999999999999999999", "99999999999999999999", "0." + "1" * 300, "1" * 400, "4.35", "0.00001", "123e-25", "2e0001",
]  # fmt: skip
TIMES = [
    "2026-01-01T00:00:00Z", "2026-01-01T12:00:00.000001Z", "2026-01-01t09:00:00-03:00", "2026-01-01 12:00:00z",
    "2026-01-01T12:00:00.0000019Z", "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
    "2000-02-29T23:59:59.999999+23:59", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T23:59:60Z",
    "2026-01-01T00:00:00", "2026-01-01", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00",
    "1684-01-01T00:00:00Z", "2255-06-05T23:47:34.740993Z", "2026-01-01T12:00:00.Z", "2026-01-01T12:00:00+24:00",
    "2026-01-01T12:00:00." + "1" * 64 + "Z", "2026-01-01T12:00:00." + "1" * 65 + "Z", "", "now", "2026-04-31T00:00:00Z",
    "1969-12-31T23:59:59.999999Z", "2026-01-01T12:00:00-00:00", "2199-12-31T23:59:59.999999Z", "２026-01-01T00:00:00Z",
]  # fmt: skip
ESCAPES = [
    r"\n", r"\t", r"\b", r"\f", r"\r", r"\"", r"\\", r"\/", r"\u0061", r"\u00e9", r"\u65e5", r"\ud83d\ude00", r"\u0000",
    r"\ud83d", r"\ude00", r"\ud83d\u0061", r"\ud83d\n", r"\u12", r"\u12G4", r"\x", r"\U0061", r"\é", "\\", r"\ud83dx",
    r"\u00E9", r"\uD83D\uDE00",
]  # fmt: skip

HOSTILE = [
    b"", b" ", b"\r", b"{}", b"{ }", b"[]", b"1", b"null", b'"a"', b"{", b"}", b'{"a"', b'{"a":', b'{"a":1',
    b'{"a":1,', b'{"a":1,}',
    b'{,"a":1}', b'{"a" 1}', b'{"a":1 "b":2}', b'{"a":1}}', b'{"a":1}{"b":1}', b'{"a":1} x', b'{"a":1}\x00',
    b'\x00{"a":1}',
    b'\xef\xbb\xbf{"a":1}', b'{"a":1,"a":2}', b'{"a":null,"a":2}', b'{"a":{"b":1},"a.b":2}', b'{"a.b":2,"a":{"b":1}}',
    b'{"a":{"b":1,"b":2}}', b'{"a":{"b":null},"a.b":2}', b'{"a":{}}', b'{"a":{"b":{}}}', b'{"a":{"":1}}', b'{"":1}',
    b'{"a":{"b":1}',
    b'{"a":{"b":1}]', b'{"a":[1,2]}', b'{"a":[]}', b'{"a":[{"b":1},{"b":2}]}',
    b'{"a":{"$time":"2026-01-01T00:00:00Z"}}',
    b'{"a":{"$time":"2026-01-01T00:00:00Z","x":1}}', b'{"a":{"$number":"NaN"}}', b'{"a":{"$number":"Infinity"}}',
    b'{"$time":1}',
    b'{"id":1}', b'{"id":-1}', b'{"id":1.0}', b'{"id":01}', b'{"id":""}', b'{"id":null}', b'{"id":true}',
    b'{"id":{}}', b'{"id":[]}',
    b'{"id":99999999999999999999}', b'{"type":1}', b'{"type":null}', b'{"type":""}', b'{"source":true}',
    b'{"type":{}}', b'{"time":1}',
    b'{"time":null}', b'{"time":{"$time":"2026-01-01T00:00:00Z"}}',
    b'{"specversion":"1.0","id":"1","source":"s","type":"t","a":1}',
    b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"a":1,"id":2}}', b'{"specversion":"0.3"}',
    b'{"specversion":null}',
    b'{"a":1,"$extensions":["a"]}', b'{"a":1,"$extensions":["b"]}', b'{"a":"\xff"}', b'{"a":"\xc0\x80"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\xf4\x90\x80\x80"}', b'{"a":"\xe2\x82"}', b'{"\xff":1}', b'{"a":"\x1f"}', b'{"a":"\t"}', b'{"a":"\x7f"}',
    b'{"a\\u0062":1}',
    b'{"a":tru}', b'{"a":truee}', b'{"a":nul}', b'{"a":True}', b'{"a":undefined}', b"{'a':1}", b'{"a":1/**/}',
    b'{"a"\n:\t1\r}\n',
    b'{"a":\x0b1}', b'{"a":\xc2\xa01}', b'{"a":1}\xc2\xa0', b'{"a":"' + b"x" * 65_536 + b'"}',
    b'{"a":"' + b"x" * 65_537 + b'"}',
    b'{"a":"' + "é".encode() * 65_536 + b'"}', b'{"a":"' + "é".encode() * 65_537 + b'"}', b'{"' + b"x" * 256 + b'":1}',
    b'{"' + b"x" * 257 + b'":1}', b'{"' + "é".encode() * 256 + b'":1}', b'{"' + "é".encode() * 257 + b'":1}',
    b'{"' + b"x" * 128 + b'":{"' + b"y" * 127 + b'":1}}', b'{"' + b"x" * 128 + b'":{"' + b"y" * 128 + b'":1}}',
    b'{"a":"' + b"\\u0061" * 65_536 + b'"}', b'{"a":"' + b"\\u0061" * 65_537 + b'"}',
    b"{" + b",".join(b'"n%d":1' % n for n in range(512)) + b"}",
    b"{" + b",".join(b'"n%d":1' % n for n in range(513)) + b"}",
    b"{" + b",".join(b'"n%d":null' % n for n in range(513)) + b"}", b'{"a":' * 15 + b"1" + b"}" * 15,
    b'{"a":' * 16 + b"1" + b"}" * 16, b'{"a":' * 17 + b"1" + b"}" * 17, b'{"a":' * 17 + b"{}" + b"}" * 17,
    b'{"a":' * 5_000,
    b'{"b":"' + b" " * 1_048_600 + b'"}', b" " * 1_048_570 + b'{"a":1}', b'{"a":1}' + b" " * 1_048_569,
    b'{"a":1}' + b" " * 1_048_570,
]  # fmt: skip


def filters(ids: bool) -> Iterator[Filter]:
    """Filters that look at every name in every way, so that a cell with a wrong value changes a result.

    Ids only on request: where filters ask for them, a text without an id is left to the reader.
    """
    rng = random.Random(7)
    for name in [*NAMES[: None if ids else -1], "time", "data.time", "missing"]:
        yield Exists(name)
        yield Not(Exists(name))
        for value in ("a", "abc", "1", "", "ação", "nul\x00", "😀a", "line\nbreak", True, False):
            yield Compare(name, "==", value)
        for number in (
            0,
            1,
            0.1,
            1.5,
            100,
            2**53,
            2**53 + 1,
            2**63,
            -(2**63),
            2**64 - 1,
            0.30000000000000004,
            1e300,
            4.35,
        ):
            yield Compare(name, "==", number)
            yield Compare(name, rng.choice(["<", "<=", ">", ">=", "!="]), number)  # type: ignore[arg-type]
        for when in ("2026-01-01T00:00:00Z", "2026-01-01T12:00:00.000001Z", "2000-02-29T00:00:00.999999Z"):
            yield Compare(name, "==", parse_time(when))
            yield Compare(name, ">", parse_time(when))
        yield Between(name, 0.1, 1)
        yield In(name, ("b", 2, True, parse_time("2026-01-01T12:00:00Z")))
        for op in ("prefix", "suffix", "contains"):
            for fold in (False, True) if name in ("a", "b", "type") else (False,):
                yield Text(name, op, "a", fold)  # type: ignore[arg-type]
        yield Text(name, "like", "*\n*")
        yield Text(name, "like", "?a", name == "price")
        yield Compare(name, ">=", "ab")
        yield Regex(name, "[a-c]+")
    yield And((Exists("a"), Not(Compare("b", "==", 1))))
    yield Or((Compare("a", "==", "a"), And((Compare("price", ">", 1), Exists("a.b")))))


def texts(rng: random.Random, count: int) -> list[bytes]:
    """Texts of events; one in three is spoiled somewhere."""
    return [_spoiled(rng, text) if rng.random() < 0.33 else text for text in (_text(rng) for _ in range(count))]


def _text(rng: random.Random) -> bytes:
    names = rng.sample(NAMES, rng.randrange(7))
    if "id" not in names and rng.random() < 0.6:
        names.append("id")
    if rng.random() < 0.15:
        names.append(rng.choice([*OTHER_NAMES, *NAMES]))
    if rng.random() < 0.3:
        names.append("time")
    space = rng.choice(["", "", "", " ", "\t", "\r\n"])
    members = (f"{_key(rng, name)}{space}:{space}{_member(rng, name, 0)}" for name in names)
    return (space + "{" + f"{space},".join(members) + "}" + space).encode("utf-8", "surrogatepass")


def _member(rng: random.Random, name: str, depth: int) -> str:
    if name == "time" and rng.random() < 0.9:
        return json.dumps(rng.choice(TIMES[:5] if rng.random() < 0.7 else TIMES))
    if name in ("id", "type", "source") and rng.random() < 0.8:
        return _string(rng, rng.choice(STRINGS))
    if name == "specversion" and rng.random() < 0.8:
        return '"1.0"'
    return _value(rng, depth)


def _value(rng: random.Random, depth: int) -> str:
    draw = rng.random()
    if draw < 0.35:
        return _string(rng, rng.choice(STRINGS))
    if draw < 0.65:
        return rng.choice(NUMBERS[:20]) if rng.random() < 0.9 else rng.choice(NUMBERS)
    if draw < 0.8:
        return rng.choice(["true", "false", "null"])
    if draw < 0.85:
        return repr(rng.choice([rng.random, lambda: rng.uniform(-1e6, 1e6), lambda: rng.getrandbits(64)])())
    if draw < 0.87:
        return json.dumps([_plain(rng) for _ in range(rng.randrange(3))])
    if draw < 0.88:
        return json.dumps({rng.choice(["$time", "$number"]): rng.choice(["NaN", "Infinity", *TIMES])})
    if depth > 4:
        return "{}"
    names = rng.sample(["a", "b", "c", "level", "b.c", ""], rng.randrange(4))
    return "{" + ",".join(f"{_key(rng, name)}:{_value(rng, depth + 1)}" for name in names) + "}"


def _plain(rng: random.Random) -> Any:
    return rng.choice([1, 2.5, "a", "abc", True, None, {"b": 1}, [1]])


def _string(rng: random.Random, text: str) -> str:
    spelled = json.dumps(text, ensure_ascii=rng.random() < 0.3)
    if rng.random() < 0.02:
        at = rng.randrange(1, len(spelled))
        spelled = spelled[:at] + rng.choice(ESCAPES) + spelled[at:]
    return spelled


def _key(rng: random.Random, name: str) -> str:
    return _string(rng, name) if rng.random() < 0.05 else json.dumps(name, ensure_ascii=False)


def _spoiled(rng: random.Random, text: bytes) -> bytes:
    """One to three bytes removed, repeated, exchanged or put in between."""
    out = bytearray(text)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out) + 1)
        draw = rng.random()
        if draw < 0.3:
            del out[at : at + 1]
        elif draw < 0.6:
            out[at:at] = rng.choice(
                [b'"', b"{", b"}", b",", b":", b"\\", b"0", b"-", b".", b"e", b"\x00", b"\xff", b" ", b"\x1f"]
            )
        elif draw < 0.8:
            out[at:at] = out[at : at + rng.randrange(8)]
        elif draw < 0.9:
            out[at:] = b""
        else:
            out[at : at + 1] = bytes([rng.randrange(256)])
    return bytes(out)
