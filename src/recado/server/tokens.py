"""Tokens: 32 random bytes that their holder keeps, of which the service keeps only the SHA-256.

The file has one JSON object a line: ``{"name": "ana's phone", "user": "ana@example.org", "sha256": "…"}`` with the
other members of a ``Principal`` where they differ from their defaults, ``sip`` if it is a SIP password, too, and
``expires_at`` if it ends. It must not be readable by others (mode 0600). A line that cannot be read refuses the whole
file: to go on without it might let someone in, or out. Whoever changes it holds a lock beside it, so that of two
changes at the same time none is lost.
"""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from recado import files
from recado.errors import RecadoError
from recado.protocols.sip.digest import secret_of
from recado.server.permissions import EVERYTHING, Principal, check_user

PREFIX = "rcd_"
SIP_REALM = "recado"
_LONGEST = 200


class TokenError(RecadoError):
    """A token file that cannot be used."""


class TokenLine(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    name: str
    user: str
    sha256: str
    admin: bool = False
    publish: tuple[str, ...] = EVERYTHING
    subscribe: tuple[str, ...] = EVERYTHING
    deny_publish: tuple[str, ...] = ()
    deny_subscribe: tuple[str, ...] = ()
    sip: str = ""
    expires_at: datetime | None = None

    def principal(self) -> Principal:
        fields = msgspec.structs.asdict(self)
        del fields["sip"], fields["expires_at"]
        return Principal(token=fields.pop("sha256"), **fields)


_decode = msgspec.json.Decoder(TokenLine).decode


def make_token() -> str:
    """A new token, for its holder alone."""
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")


def hash_token(token: str) -> str:
    return sha256(token.encode(errors="surrogatepass")).hexdigest()


def utc_now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


class Tokens:
    """The tokens of a file; without a path there are none, and nobody is found.

    A file that ``may_come_later`` need not be there until it was.
    """

    def __init__(
        self, path: str | Path | None = None, *, may_come_later: bool = False, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self.path, self._may_come_later, self._clock = Path(path) if path else None, may_come_later, clock
        self._by_hash: dict[str, Principal] = {}
        self._by_sip: dict[str, tuple[str, Principal]] = {}
        self._ends: dict[str, datetime] = {}  # by hash
        self._seen: object = None
        self.reload()

    def __len__(self) -> int:
        return len(self._by_hash)

    def names(self) -> set[str]:
        """What the tokens that count are called."""
        return {who.name for who in self._by_hash.values()}

    def reload(self) -> None:
        """Read the file again. If it cannot be used, the tokens stay as they were and a TokenError says why."""
        if self.path is None or (self._may_come_later and not self.path.exists()):
            return
        self._seen = _look(self.path)  # before it is read: a change in between is seen again
        now = self._clock()
        lines = [line for line in read_tokens(self.path) if line.expires_at is None or line.expires_at > now]
        self._may_come_later = False
        self._ends = {line.sha256: line.expires_at for line in lines if line.expires_at is not None}
        self._by_hash = {line.sha256: line.principal() for line in lines}
        self._by_sip = {line.user: (line.sip, line.principal()) for line in lines if line.sip}

    def has_changed(self) -> bool:
        """Is the file another one than was read, or has a token ended that was good the last time?"""
        if self.path is not None and _look(self.path) != self._seen:
            return True
        ended = [token for token, end in self._ends.items() if end <= self._clock()]
        for token in ended:
            del self._ends[token]
            gone = self._by_hash.pop(token, None)
            if gone is not None and self._by_sip.get(gone.user, ("", None))[1] == gone:
                del self._by_sip[gone.user]
        return bool(ended)

    def find(self, token: str) -> Principal | None:
        """Who holds this token?"""
        if len(token) > _LONGEST:
            return None
        return self._good(self._by_hash.get(hash_token(token)))

    def _good(self, who: Principal | None) -> Principal | None:
        if who is None or who.token not in self._ends:
            return who
        return who if self._clock() < self._ends[who.token] else None

    def current(self, who: Principal) -> Principal | None:
        """Who the caller is by the tokens of now: its rights may be others; None if its token is gone."""
        if not who.token:
            return who
        found = self._good(self._by_hash.get(who.token))
        return found if found is not None and found.user == who.user else None

    def by_sip(self, user: str) -> tuple[str, Principal] | None:
        """The digest secret of the user's token for SIP, and what its holder may do."""
        found = self._by_sip.get(user)
        return found if found is not None and self._good(found[1]) is not None else None


def read_tokens(path: Path) -> list[TokenLine]:
    """The lines of a token file."""
    try:
        mode = path.stat().st_mode
        text = path.read_bytes()
    except OSError as error:
        raise TokenError(f"the token file {path} cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise TokenError(f"the token file {path} can be read by others; make it private with: chmod 600 {path}")
    return [_line(line, number, path) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _line(text: bytes, number: int, path: Path) -> TokenLine:
    try:
        line = _decode(text)
        check_user(line.user)
        if len(line.sha256) != 64 or line.sha256.strip("0123456789abcdef"):
            raise TokenError("$.sha256: must be 64 hexadecimal digits in lower case")
    except (msgspec.DecodeError, UnicodeError, RecadoError) as error:
        raise TokenError(f"line {number} of the token file {path}: {error}") from None
    return line


def _look(path: Path) -> object:
    """A value that changes when the file is replaced."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Only one at a time changes the file; others wait."""
    try:
        lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, files.PRIVATE)
    except OSError as error:
        raise TokenError(f"the token file {path} cannot be changed: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def add_token(
    path: Path, name: str, user: str, *, sip: bool = False, expires_at: datetime | None = None, **rights: object
) -> str:
    """Make a token for a user and add it to the file; the token itself is nowhere but in the answer.

    With ``sip`` it is a SIP password, too. Digest authentication needs a secret on both sides, so the file then holds
    what suffices to log in by SIP; a user has at most one such token.
    """
    token = make_token()
    secret = secret_of("SHA-256", user, SIP_REALM, token) if sip else ""
    line = TokenLine(name, check_user(user), hash_token(token), sip=secret, expires_at=expires_at, **rights)  # type: ignore[arg-type]  # members of a line
    with changing(path):
        lines = read_tokens(path) if path.exists() else []
        if any(line.name == name for line in lines):
            raise TokenError(
                f"there is a token with the name {name!r} already; revoke it first, or choose another name"
            )
        if sip and any(line.sip and line.user == user for line in lines):
            raise TokenError(f"user {user!r} has a token for SIP already; revoke it first")
        write_tokens(path, [*lines, line])
    return token


def revoke_token(path: Path, name: str) -> None:
    """Remove a token by its name."""
    if not path.exists():
        raise TokenError(f"the token file {path} cannot be read: there is none")
    with changing(path):
        lines = read_tokens(path)
        left = [line for line in lines if line.name != name]
        if len(left) == len(lines):
            raise TokenError(f"there is no token with the name {name!r} in {path}")
        write_tokens(path, left)


def write_tokens(path: Path, lines: list[TokenLine]) -> None:
    """Replace the file as a whole, private from the beginning."""
    files.replace(path, b"".join(msgspec.json.encode(line) + b"\n" for line in lines), 0o600)
