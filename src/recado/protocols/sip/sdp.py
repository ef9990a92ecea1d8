"""Session descriptions (mobility document, section 4; RFC 8866): where each side waits for data.

``Media`` is what an application says and wants to know: host, port, protocol, device, RUDP connection and its key, and
what the device has seen. ``Session`` is a whole description as it travels. The reader is tolerant (unknown lines are
skipped, their order is free) and bounded; the writer writes the ten lines of the document and ``a=rudp-key``.
``accept`` chooses the one media line of an offer that is served, and answers the others with port 0 (RFC 3264,
section 6).
"""

from __future__ import annotations

import re

import msgspec

from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.text import SipError, read_number, shown
from recado.protocols.sip.uri import is_numeric

RUDP = "UDP/RUDP"
TCP = "TCP"
FORMAT = "eci"
_LINE = re.compile(r"([a-z])=(.*)")
_CONNECTION = re.compile(r"IN IP[46] (\S+)")
_DEVICE = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_HEX = re.compile(r"[0-9a-fA-F]{1,8}")
_KEY = re.compile(r"[0-9a-fA-F]{32}")
_NUMBER = re.compile(r"[0-9]{1,18}")


class Media(msgspec.Struct, frozen=True, kw_only=True):
    """Where one side waits for data."""

    host: str
    port: int
    connection: int | None = None
    """The 32-bit number of the RUDP connection, which survives a change of address."""
    key: bytes | None = None
    """With which packets of that connection are authenticated, together with the other side's."""
    device: str | None = None
    seen: int | None = None
    """The last notification that the device has done with, and ``log`` whose positions it counts, as in HELLO."""
    log: str | None = None
    confirms: bool = False
    """The device confirms notifications itself, when its application is done with them; else RUDP's ACK does."""
    protocol: str = RUDP

    def __post_init__(self) -> None:
        if self.device is not None and not _DEVICE.fullmatch(self.device):
            raise SipError(f"the device {shown(self.device)} has to be 1 to 128 letters, digits or any of . _ : -")


class Line(msgspec.Struct, frozen=True):
    """One ``m=`` line with what belongs to it."""

    kind: str
    port: int
    protocol: str
    formats: tuple[str, ...]
    host: str | None = None
    attributes: tuple[tuple[str, str], ...] = ()


class Session(msgspec.Struct, frozen=True):
    """A description: its origin, its version, its lines. ``choose_line`` finds the line that is used."""

    name: str
    session_id: int
    version: int
    host: str
    lines: tuple[Line, ...]
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def media(self) -> Media:
        line = choose_line(self)
        found = {**dict(reversed(self.attributes)), **dict(reversed(line.attributes))}
        return Media(
            host=line.host or self.host,
            port=line.port,
            connection=_connection(found.get("rudp-conn")),
            key=_key(found.get("rudp-key")),
            device=_device(found.get("eci-device")),
            seen=_read_seen(found.get("eci-seen")),
            log=_device(found.get("eci-log")),
            confirms="eci-confirms" in found,
            protocol=line.protocol,
        )

    def newer_than(self, other: Session) -> bool:
        """Only a higher version of the same session is news; another session id is another session."""
        return self.session_id != other.session_id or self.version > other.version


def _connection(text: str | None) -> int | None:
    return int(text, 16) if text is not None and _HEX.fullmatch(text) else None


def _key(text: str | None) -> bytes | None:
    return bytes.fromhex(text) if text is not None and _KEY.fullmatch(text) else None


def _device(text: str | None) -> str | None:
    return text if text is not None and _DEVICE.fullmatch(text) else None


def _read_seen(text: str | None) -> int | None:
    return int(text) if text is not None and _NUMBER.fullmatch(text) else None


def choose_line(session: Session, protocols: tuple[str, ...] = (RUDP, TCP)) -> Line:
    """The first line that can be served; 488 if there is none."""
    for protocol in protocols:
        for line in session.lines:
            fits = line.kind == "application" and line.protocol == protocol and FORMAT in line.formats
            if fits and line.port and is_numeric(line.host or session.host):
                return line
    raise SipError(f"no media line can be served here; one of {', '.join(protocols)} with {FORMAT} is needed", 488)


def describe(media: Media, name: str, session_id: int, version: int) -> Session:
    """The description that a side offers."""
    line = Line("application", media.port, media.protocol, (FORMAT,), None, _attributes(media))
    return Session(name, session_id, version, media.host, (line,))


def _attributes(media: Media) -> tuple[tuple[str, str], ...]:
    found = [("eci-version", "1")]
    if media.device is not None:
        found.append(("eci-device", media.device))
    if media.connection is not None:
        found.append(("rudp-conn", f"{media.connection:08x}"))
    if media.key is not None:
        found.append(("rudp-key", media.key.hex()))
    if media.seen is not None:
        found.append(("eci-seen", str(media.seen)))
        found += [("eci-log", media.log)] if media.log else []
    if media.confirms:
        found.append(("eci-confirms", ""))
    return (*found, ("sendrecv", ""))


def accept(offer: Session, media: Media, name: str, session_id: int, version: int) -> Session:
    """The answer to an offer: as many lines as it has, one of them served."""
    used = choose_line(offer, (media.protocol,))
    ours = describe(media, name, session_id, version).lines[0]
    lines = tuple(
        ours if line is used else msgspec.structs.replace(line, port=0, attributes=()) for line in offer.lines
    )
    return Session(name, session_id, version, media.host, lines)


def write_sdp(session: Session) -> bytes:
    family = "IP6" if ":" in session.host else "IP4"
    lines = [
        "v=0",
        f"o={session.name} {session.session_id} {session.version} IN {family} {session.host}",
        "s=MD-ECI",
        f"c=IN {family} {session.host}",
        "t=0 0",
        *map(_attribute, session.attributes),
    ]
    for line in session.lines:
        lines.append(f"m={line.kind} {line.port} {line.protocol} {' '.join(line.formats)}")
        if line.host is not None:
            lines.append(f"c=IN {'IP6' if ':' in line.host else 'IP4'} {line.host}")
        lines += map(_attribute, line.attributes)
    return "".join(f"{line}\r\n" for line in lines).encode("utf-8", "surrogateescape")


def _attribute(pair: tuple[str, str]) -> str:
    name, value = pair
    return f"a={name}:{value}" if value else f"a={name}"


def read_sdp(body: bytes, limits: SipLimits = LIMITS) -> Session:
    """``o=`` and one address are needed; 400 for what is not SDP at all."""
    if len(body) > limits.sdp_bytes:
        raise SipError(f"a session description of {len(body)} bytes; at most {limits.sdp_bytes} are accepted", 413)
    sections = _sections(body, limits)
    origin = _origin(_first(sections[0], "o"))
    host = _host(_first(sections[0], "c"))
    lines = tuple(_media_line(section) for section in sections[1:])
    host = host or next((line.host for line in lines if line.host), None)
    if host is None:
        raise SipError("the session description has no line c=IN IP4 address")
    return Session(*origin, host, lines, _pairs(sections[0]))


def _sections(body: bytes, limits: SipLimits) -> list[list[tuple[str, str]]]:
    """The lines of the session, and those of each media line."""
    sections: list[list[tuple[str, str]]] = [[]]
    for text in body.decode("utf-8", "surrogateescape").split("\n"):
        found = _LINE.fullmatch(text.rstrip())
        if found is None:
            if text.strip():
                raise SipError(f"{shown(text)} is not a line of a session description; it should look like c=value")
            continue
        if found[1] == "m":
            sections.append([])
        if len(sections) > limits.sdp_media + 1:
            raise SipError(f"more than {limits.sdp_media} media lines in a session description")
        sections[-1].append((found[1], found[2]))
    return sections


def _first(section: list[tuple[str, str]], letter: str) -> str | None:
    return next((value for key, value in section if key == letter), None)


def _origin(text: str | None) -> tuple[str, int, int]:
    parts = (text or "").split(" ")
    if len(parts) != 6:
        raise SipError("the session description has no line o=user id version IN IP4 address")
    return parts[0], read_number(parts[1], "the id in o=", 2**64), read_number(parts[2], "the version in o=", 2**64)


def _host(text: str | None) -> str | None:
    if text is None:
        return None
    found = _CONNECTION.fullmatch(text)
    if found is None:
        raise SipError(f"{shown('c=' + text)} should look like c=IN IP4 address")
    return found[1].partition("/")[0]


def _media_line(section: list[tuple[str, str]]) -> Line:
    parts = section[0][1].split(" ")
    if len(parts) < 4:
        raise SipError(f"{shown('m=' + section[0][1])} should look like m=application port UDP/RUDP eci")
    port = read_number(parts[1].partition("/")[0], "the port in m=", 65_535)
    return Line(parts[0], port, parts[2], tuple(parts[3:]), _host(_first(section, "c")), _pairs(section))


def _pairs(section: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    found = (value.partition(":") for key, value in section if key == "a")
    return tuple((name, value) for name, _, value in found)
