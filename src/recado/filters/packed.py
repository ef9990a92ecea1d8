"""Filters as bytes, for files: MessagePack of the tree, written and read some ten times as fast as text.

The bytes are for the same version of Recado, or a later one that reads them; an exchange between programs takes text.
Instants are in UTC afterwards; nothing else changes.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from recado.errors import FilterError
from recado.model.filter import And, Filter, In, Not, Or

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_KINDS: dict[str, type[Any]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Filter)}


def pack(filter: Filter) -> bytes:
    """The filter as bytes; equal filters, written alike, have equal bytes."""
    return _encode(filter)


def unpack(packed: bytes) -> Filter:
    """The filter again; a FilterError if these bytes are none."""
    try:
        return _made(_decode(packed))
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise FilterError(f"these bytes are no filter: {error!r}") from None


def _made(members: dict[str, Any]) -> Filter:
    kind = _KINDS[members.pop("type")]
    if kind is And or kind is Or:
        return kind(tuple(map(_made, members["parts"])))  # type: ignore[no-any-return]  # one of the two
    if kind is Not:
        return Not(_made(members["part"]))
    if kind is In:
        return In(members["name"], tuple(members["values"]))
    return kind(**members)  # type: ignore[no-any-return]  # a kind of filter
