"""What is packed is unpacked as the same filter."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given

from recado.errors import FilterError
from recado.filters.expression import parse
from recado.filters.nodes import KINDS, NUMBERS
from recado.filters.records import pack, unpack
from recado.model.filter import Filter
from strategies import filters


@given(filters(sql=True))
def test_what_is_packed_is_unpacked(filter):
    again = unpack(pack(filter))
    assert again == filter
    assert pack(again) == pack(unpack(pack(again)))


def test_numbers_keep_their_kind():
    for text in ("x == 1", "x == 1.0", "x == true", 'x == "1"', "x in {1, 2.5, true}", "x < 18446744073709551615"):
        assert repr(unpack(pack(parse(text)))) == repr(parse(text))


def test_every_kind_has_its_number_and_keeps_it():
    assert set(KINDS) == set(get_args(Filter))
    names = "Constant Compare Between In Text Regex Exists Similar Sql And Or Not"
    assert " ".join(NUMBERS[number].node.__name__ for number in range(len(NUMBERS))).startswith(names)


def test_shorter_than_text():
    text = 'type == "tick" and Stock == "PETR4" and Price < 25.5 and not (Volume >= 1000 or Volume in {1, 2, 3})'
    assert len(pack(parse(text))) < len(text)


@pytest.mark.parametrize(
    "packed",
    [b"", b"\x01", b"\x80", b"\x90", b"\x91\x63", b"\x91\xa1x", b"\x92\x0b\x01", b"\x93\x03\xa1x\x05", b"\x91" * 5_000],
)
def test_other_bytes_are_refused(packed):
    with pytest.raises(FilterError, match="no filter"):
        unpack(packed)
