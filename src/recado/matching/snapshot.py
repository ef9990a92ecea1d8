"""An index as bytes or as a file that many processes can map at once.

The flat arrays lie in the file as they lie in memory, so loading maps them and rebuilds only the dictionary; pages are
shared between processes until one of them changes its copy. Layout: magic, length and digest of the header, the header
(MessagePack), then the arrays, each at a multiple of 64 bytes and with a CRC-32 of its own. A file that is damaged, cut
short or of another version is refused with the reason, before any of it is used.
"""

from __future__ import annotations

import mmap
import os
import platform
import struct
import threading
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from recado.errors import RecadoError
from recado.filters.expression import format_expression
from recado.matching.dictionary import Dictionary
from recado.matching.index import Index

MAGIC = b"RECADOIX"
VERSION = 3
"""Version 2 was written by a builder that could mix up the constants of filters loaded together (docs/decisions/
exactness.md), so what such a file matches cannot be relied on."""
ALIGNMENT = 64
_PREFIX = struct.Struct("<8sIQ16s")

Array = NDArray[Any]


class SnapshotError(RecadoError):
    """A snapshot that cannot be loaded."""


_TYPES = ("<i4", "<i8", "<u4", "|u1", "<f8")


class _ArrayInfo(msgspec.Struct, array_like=True):
    owner: str
    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    crc: int


class _Header(msgspec.Struct):
    arrays: list[_ArrayInfo]
    names: list[str]
    wants_text: list[bool]
    wants_folded: list[bool]
    constants: list[Any]
    counters: dict[str, dict[str, int]]
    free: dict[str, Any]
    opaque: dict[int, str]


def to_bytes(index: Index) -> bytes:
    """The whole index as bytes."""
    return b"".join(_pieces(index))


def save(index: Index, path: str | os.PathLike[str]) -> None:
    """Write the index to a file, which appears under its name only when it is complete."""
    target = Path(path)
    draft = target.with_name(f"{_draft_prefix(target)}{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        _remove_stale_drafts(target)
        with draft.open("wb") as file:
            file.writelines(_pieces(index))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise SnapshotError(f"{path} cannot be written: {error.strerror}") from None


def _draft_prefix(target: Path) -> str:
    """Drafts are named after machine, process and thread, so that no two writers share one."""
    return f"{target.name}.{platform.node()}."


def _remove_stale_drafts(target: Path) -> None:
    """Remove the drafts of processes on this machine that are gone: they were killed while saving."""
    prefix = _draft_prefix(target)
    for draft in target.parent.iterdir():
        if draft.name.startswith(prefix) and draft.suffix == ".tmp":
            process = draft.name[len(prefix) :].split(".")[0]
            if process.isdecimal() and not _is_alive(int(process)):
                draft.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # elsewhere there is no harmless way to ask
    try:
        os.kill(process, 0)  # asks, and does nothing to it
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # not ours, so it is there
        return True
    return True


def from_bytes(data: bytes) -> Index:
    """The index of ``to_bytes``."""
    return _restore(bytearray(data), "the snapshot", check=True)


def load(path: str | os.PathLike[str], check: bool = True) -> Index:
    """Map a saved index. ``check=False`` skips the CRCs, for files that were checked before."""
    try:
        with Path(path).open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise SnapshotError(f"{path} is empty; a snapshot was expected")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise SnapshotError(f"{path} cannot be read: {error.strerror}") from None
    return _restore(data, str(path), check)


_COUNTERS = {
    "store": ("words_top", "events", "entries", "optimized_at", "_changes", "_entries_top"),
    "registry": ("count", "slots_top", "pool_top", "_garbage", "_entries", "_blocks_top"),
}
_TRIM = {
    "words": "words_top",
    "starts": "_entries_top",
    "pool": "pool_top",
    "offsets": "slots_top",
    "entry_of": "slots_top",
    "keys": "_entries_top",
    "members": "_entries_top",
    "blocks": "_blocks_top",
}
"""How much of an array is in use; the others are kept whole."""


def _arrays(index: Index) -> Iterator[tuple[str, str, Array]]:
    for owner in ("store", "registry"):
        part = getattr(index, owner)
        for name in part.arrays:
            array = getattr(part, name)
            if name in _TRIM:
                top = index.store.capacity if _TRIM[name] == "_entries_top" else getattr(part, _TRIM[name])
                array = array[: max(top, 1)]
            yield owner, name, np.ascontiguousarray(array)
    yield "dictionary", "attribute_of", np.array(index.dictionary.attribute_of, np.int32)
    yield "dictionary", "references", np.array(index.dictionary.references, np.int32)


def _pieces(index: Index) -> Iterator[bytes]:
    with index.lock:
        index.store.link_all()
        infos: list[_ArrayInfo] = []
        blobs: list[bytes] = []
        offset = 0
        for owner, name, array in _arrays(index):
            blob = array.tobytes()
            infos.append(_ArrayInfo(owner, name, array.dtype.str, array.shape, offset, zlib.crc32(blob)))
            blob += bytes(-len(blob) % ALIGNMENT)
            blobs.append(blob)
            offset += len(blob)
        header = msgspec.msgpack.encode(_header(index, infos))
        yield _PREFIX.pack(MAGIC, VERSION, len(header), blake2b(header, digest_size=16).digest())
        yield header
        yield bytes(-(_PREFIX.size + len(header)) % ALIGNMENT)
        yield from blobs


def _header(index: Index, arrays: list[_ArrayInfo]) -> _Header:
    dictionary = index.dictionary
    return _Header(
        arrays=arrays,
        names=list(dictionary.names),
        wants_text=dictionary.wants_text,
        wants_folded=dictionary.wants_folded,
        constants=dictionary.constant_values(),
        counters={
            owner: {name: int(getattr(getattr(index, owner), name)) for name in names}
            for owner, names in _COUNTERS.items()
        },
        free={"store": index.store.free(), "registry": index.registry.free(), "dictionary": dictionary.free()},
        opaque={entry: f if isinstance(f, str) else format_expression(f) for entry, f in index.opaque.items()},
    )


def _restore(data: mmap.mmap | bytearray, where: str, check: bool) -> Index:
    header, base = _read_header(data, where)
    try:
        return _rebuild(header, data, base, where, check)
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise SnapshotError(f"{where} is damaged: {error}") from None


def _rebuild(header: _Header, data: mmap.mmap | bytearray, base: int, where: str, check: bool) -> Index:
    index = Index()
    expected = {(owner, name) for owner in ("store", "registry") for name in getattr(index, owner).arrays}
    expected |= {("dictionary", "attribute_of"), ("dictionary", "references")}
    if {(info.owner, info.name) for info in header.arrays} != expected:
        raise SnapshotError(f"{where} is damaged: it does not hold the arrays of an index")
    if {owner: tuple(counters) for owner, counters in header.counters.items()} != _COUNTERS:
        raise SnapshotError(f"{where} is damaged: it does not hold the counters of an index")
    found = {}
    for info in header.arrays:
        found[info.owner, info.name] = _read_array(data, base, info, where, check)
    for owner, counters in header.counters.items():
        for name, value in counters.items():
            setattr(getattr(index, owner), name, value)
    for (owner, name), array in found.items():
        if owner != "dictionary":
            setattr(getattr(index, owner), name, array)
    index.store.views()
    index.store.restore_free(header.free["store"])
    index.registry.restore_free(header.free["registry"])
    dictionary: Dictionary = index.dictionary
    dictionary.restore(
        header.names, header.wants_text, header.wants_folded, header.constants, header.free["dictionary"],
        found["dictionary", "attribute_of"].tolist(), found["dictionary", "references"].tolist(),
    )  # fmt: skip
    index.opaque = dict(header.opaque)
    return index


def _read_header(data: mmap.mmap | bytearray, where: str) -> tuple[_Header, int]:
    if len(data) < _PREFIX.size or data[:8] != MAGIC:
        raise SnapshotError(f"{where} is not a snapshot of an index")
    _, version, size, digest = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise SnapshotError(
            f"{where} has snapshot version {version}; this program reads version {VERSION}. "
            "Build it again from its subscriptions (recado pipeline publish SUBSCRIPTIONS --set FOLDER makes a set)"
            + (": version 2 and older may hold filters that match wrongly" if version < VERSION else "")
        )
    raw = bytes(data[_PREFIX.size : _PREFIX.size + size])
    if len(raw) < size or blake2b(raw, digest_size=16).digest() != digest:
        raise SnapshotError(f"{where} is damaged: its header does not have the checksum it was written with")
    try:
        header = msgspec.msgpack.decode(raw, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise SnapshotError(f"{where} is damaged: {error}") from None
    end = _PREFIX.size + size
    return header, end + (-end % ALIGNMENT)


def _read_array(data: mmap.mmap | bytearray, base: int, info: _ArrayInfo, where: str, check: bool) -> Array:
    if info.dtype not in _TYPES:
        raise SnapshotError(f"{where} is damaged: array {info.name!r} has the type {info.dtype!r}")
    dtype = np.dtype(info.dtype)
    count = int(np.prod(info.shape))
    if base + info.offset + count * dtype.itemsize > len(data):
        raise SnapshotError(f"{where} is cut short: array {info.name!r} is not all there")
    array = np.frombuffer(data, dtype, count, base + info.offset)
    if check and zlib.crc32(array.data) != info.crc:
        raise SnapshotError(f"{where} is damaged: array {info.name!r} does not have the checksum it was written with")
    return array.reshape(info.shape)
