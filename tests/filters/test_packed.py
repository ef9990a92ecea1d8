"""What is packed is unpacked as the same filter."""

from __future__ import annotations

import pytest
from hypothesis import given

from recado.errors import FilterError
from recado.filters.expression import parse
from recado.filters.packed import pack, unpack
from strategies import filters


@given(filters(sql=True))
def test_what_is_packed_is_unpacked(filter):
    again = unpack(pack(filter))
    assert again == filter
    assert pack(again) == pack(unpack(pack(again)))


def test_numbers_keep_their_kind():
    for text in ("x == 1", "x == 1.0", "x == true", 'x == "1"', "x in {1, 2.5, true}", "x < 18446744073709551615"):
        assert repr(unpack(pack(parse(text)))) == repr(parse(text))


@pytest.mark.parametrize("bytes", [b"", b"\x01", b"\x80", b"\x81\xa4type\xa1x", b"\x93\x01\x02\x03", b"\x91" * 5_000])
def test_other_bytes_are_refused(bytes):
    with pytest.raises(FilterError, match="no filter"):
        unpack(bytes)
