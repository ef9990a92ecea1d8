"""What a link says for itself: the hello, the proof of the shared key, keep-alive, and good-bye.

Both sides say hello with a version, the names of overlay, protocol and node, and a fresh nonce; then each proves that
it has the key by a MAC over both hellos, bound to who dialled, so that no answer can be used elsewhere. The dialler
proves first: whoever merely connects to a listener learns nothing that depends on the key. Without a key all use the
empty one, which proves nothing; see ``recado.overlay.addresses`` for where that is allowed.

Two nodes may dial each other at the same moment. The node with the greater name is the one that accepts: it accepts
one connection and refuses the other, so there is one link and no moment at which the two sides disagree.

``Handshake`` is pure: payloads in, messages out. It is over when ``accepted``; a HelloError says why not.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from recado.overlay.addresses import is_name
from recado.overlay.limits import HelloError, LinkError, sanitize

VERSION = 1
NONCE_BYTES = 16


class Hello(msgspec.Struct, frozen=True, tag="hello", array_like=True):
    """Who speaks. ``capabilities`` names optional abilities; one that the other side does not know is ignored."""

    version: int
    overlay: str
    protocol: str
    node: str
    nonce: bytes
    capabilities: tuple[str, ...] = ()


_AT = "at="


def endpoint_capability(endpoint: str) -> str:
    """What a hello says of a node that can be called back."""
    return _AT + endpoint


def endpoint_of(hello: Hello) -> str:
    """Where the node listens that said this hello; empty if it does not say."""
    return next((one.removeprefix(_AT) for one in hello.capabilities if one.startswith(_AT)), "")


class Proof(msgspec.Struct, frozen=True, tag="proof", array_like=True):
    mac: bytes


class Accept(msgspec.Struct, frozen=True, tag="accept", array_like=True):
    """From the node that decides: this connection is the link."""


class Refuse(msgspec.Struct, frozen=True, tag="refuse", array_like=True):
    """The connection ends, for a reason that a person can read. ``linked``: because there is a link already."""

    reason: str
    linked: bool = False


class Ping(msgspec.Struct, frozen=True, tag="ping", array_like=True):
    pass


class Pong(msgspec.Struct, frozen=True, tag="pong", array_like=True):
    pass


class Bye(msgspec.Struct, frozen=True, tag="bye", array_like=True):
    """The node stops; everything it had to say came before."""


class Begin(msgspec.Struct, frozen=True, tag="begin", array_like=True):
    """The messages that follow are numbered from ``first`` on. Numbers go on over the connections of a ``session``."""

    session: int
    first: int


class Ack(msgspec.Struct, frozen=True, tag="ack", array_like=True):
    """All messages up to this number have come."""

    number: int


Control: TypeAlias = Hello | Proof | Accept | Refuse | Ping | Pong | Bye | Begin | Ack

_decoder: msgspec.msgpack.Decoder[Control] = msgspec.msgpack.Decoder(Control)
encode_control = msgspec.msgpack.Encoder().encode


def decode_control(payload: bytes) -> Control:
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LinkError(f"a control frame that is none: {error}") from None


class Handshake:
    """The way from a connection to a link, at one of its ends."""

    def __init__(self, me: Hello, key: bytes, *, dialled: bool) -> None:
        self._me, self._key, self._dialled = me, key, dialled
        self._mine = encode_control(me)
        self._theirs = b""
        self.peer: Hello | None = None
        self.proven = False
        self.accepted = False

    def begin(self) -> list[Control]:
        return [self._me] if self._dialled else []

    @property
    def decides(self) -> bool:
        """Is it this side that accepts or refuses?"""
        return self.peer is not None and self._me.node > self.peer.node

    def receive(self, payload: bytes) -> list[Control]:
        """Take one payload; what to answer."""
        if self.peer is None:
            return self._greet(payload)
        match decode_control(payload):
            case Refuse(reason, linked):
                raise RefusedError(reason, linked, self.peer.node)
            case Proof(mac) if not self.proven:
                return self._verify(mac)
            case Accept() if self.proven and not self.decides:
                self.accepted = True
                return []
            case message:
                raise HelloError(f"{type(message).__name__.lower()} out of turn, before the link was accepted")

    def accept(self) -> Accept:
        """The side that decides takes this connection."""
        assert self.proven
        assert self.decides
        self.accepted = True
        return Accept()

    def _greet(self, payload: bytes) -> list[Control]:
        hello = _read_hello(payload)
        self._check(hello)
        self.peer, self._theirs = hello, payload
        return [Proof(self._mac(dialler=True))] if self._dialled else [self._me]

    def _verify(self, mac: bytes) -> list[Control]:
        if not hmac.compare_digest(mac, self._mac(dialler=not self._dialled)):
            raise HelloError("the shared keys differ, or only one side has a key")
        self.proven = True
        return [] if self._dialled else [Proof(self._mac(dialler=False))]

    def _check(self, hello: Hello) -> None:
        for what in ("overlay", "protocol"):
            ours, theirs = getattr(self._me, what), getattr(hello, what)
            if ours != theirs:
                raise HelloError(f"this is {what} {ours!r} and the other side is of {what} {theirs!r}")
        if hello.node == self._me.node:
            raise HelloError(f"both sides are called {hello.node!r}; is the node its own peer, or a name used twice?")
        if not is_name(hello.node):
            raise HelloError(f"{hello.node[:80]!r} is no name of a node")
        if len(hello.nonce) != NONCE_BYTES:
            raise HelloError(f"a nonce has {NONCE_BYTES} bytes, not {len(hello.nonce)}")

    def _mac(self, *, dialler: bool) -> bytes:
        first, second = (self._mine, self._theirs) if self._dialled else (self._theirs, self._mine)
        side = b"dialler" if dialler else b"listener"
        text = b"".join(len(part).to_bytes(4, "big") + part for part in (b"recado overlay", side, first, second))
        return hmac.digest(self._key, text, "sha256")


class RefusedError(HelloError):
    """One side refused; ``linked`` if only because the two nodes have a link already."""

    def __init__(self, reason: str, linked: bool = False, peer: str = "") -> None:
        super().__init__(f"refused: {sanitize(reason)}")
        self.linked, self.peer = linked, peer


def _read_hello(payload: bytes) -> Hello:
    """A hello of another version may have other fields, so the version is read first."""
    try:
        values = msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        values = None
    match values:
        case ["refuse", str(reason), *rest]:
            raise RefusedError(reason, rest[:1] == [True])
        case ["hello", int(version), *_]:
            if version != VERSION:
                raise HelloError(f"this node speaks version {VERSION} and the other side version {version}")
            try:
                return msgspec.convert(values, Hello)
            except msgspec.ValidationError as error:
                raise HelloError(f"the hello is not well formed: {error}") from None
    raise HelloError("the other side did not say hello; it is no node of an overlay")


# --- Frames: how messages stand on a byte stream. Pure: bytes in, frames out -----------------------------------------
#
# A frame is four bytes and a payload. The header, read as a big-endian number, has the payload's length in its lower 31
# bits; its highest bit is set if the payload is for the link itself (hello, ping, …) and not for the machine behind it.
# The payload is one MessagePack value.
#
# The decoder checks a length before it waits for the payload, so a hostile header costs four bytes. ``limit`` may
# change between frames: it is small until the other side has proved who it is.


HEADER_BYTES = 4
_CONTROL = 1 << 31


class Frame(msgspec.Struct, frozen=True, gc=False):
    control: bool
    payload: bytes


def header(payload: bytes, *, control: bool = False) -> bytes:
    """The four bytes before a payload."""
    return (len(payload) | (_CONTROL if control else 0)).to_bytes(HEADER_BYTES, "big")


class FrameDecoder:
    """Collects what arrives and gives whole frames, however the bytes were cut."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._buffer = bytearray()
        self._at = 0

    def feed(self, data: bytes) -> None:
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
        self._buffer += data

    @property
    def waiting(self) -> int:
        """Bytes of a frame that is not whole yet."""
        return len(self._buffer) - self._at

    def frames(self) -> Iterator[Frame]:
        """The frames that are whole by now; a LinkError if one is longer than the limit."""
        while (frame := self.next()) is not None:
            yield frame

    def next(self) -> Frame | None:
        start = self._at + HEADER_BYTES
        if len(self._buffer) < start:
            return None
        head = int.from_bytes(self._buffer[self._at : start], "big")
        length = head & ~_CONTROL
        if length > self.limit:
            raise LinkError(
                f"a frame claims {length:,} bytes and the limit here is {self.limit:,}: "
                "the other side speaks another protocol, or sends too much at once"
            )
        end = start + length
        if len(self._buffer) < end:
            return None
        self._at = end
        return Frame(bool(head & _CONTROL), bytes(memoryview(self._buffer)[start:end]))
