"""Digest authentication with MD5 and SHA-256 and ``qop=auth`` (RFC 3261, section 22; RFC 7616 and 8760).

``Authenticator`` is the client's half: it remembers the last challenge of each realm, so that later requests carry
credentials at once. ``Guard`` is the server's: its nonces are stamped and signed, so that it remembers only how often
each one was used, and at most so many of them; those made before one that was forgotten are used up. A count that was
used before is answered as stale, however often it comes: a captured request cannot be played again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from recado.protocols.machine import Rng
from recado.protocols.sip.messages import Headers, Request
from recado.protocols.sip.text import SipError, quote, split, unquote
from recado.protocols.sip.uri import SipUri, Uri, address_of_record, read_sip_uri

Algorithm: TypeAlias = Literal["MD5", "SHA-256"]
ALGORITHMS: tuple[Algorithm, ...] = ("SHA-256", "MD5")
_HASH = {"MD5": "md5", "SHA-256": "sha256"}
QUOTED = ("username", "realm", "nonce", "uri", "response", "cnonce", "opaque")


class Credentials(msgspec.Struct, frozen=True):
    username: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.username!r}, ...)"


def digest(algorithm: str, *parts: str) -> str:
    text = ":".join(parts).encode("utf-8", "surrogateescape")
    return hashlib.new(_HASH[algorithm], text, usedforsecurity=False).hexdigest()


def secret_of(algorithm: Algorithm, username: str, realm: str, password: str) -> str:
    """What a server keeps instead of the password (called A1 in the RFCs)."""
    return digest(algorithm, username, realm, password)


def answer_of(secret: str, method: str, fields: Mapping[str, str]) -> str:
    """The ``response`` that belongs to these fields."""
    algorithm = fields.get("algorithm", "MD5").upper()
    what = digest(algorithm, method, fields["uri"])
    if "qop" not in fields:
        return digest(algorithm, secret, fields["nonce"], what)
    return digest(algorithm, secret, fields["nonce"], fields["nc"], fields["cnonce"], fields["qop"], what)


def read_fields(text: str) -> dict[str, str]:
    """The fields of a challenge or of credentials; empty for another scheme than Digest."""
    scheme, _, rest = text.partition(" ")
    if scheme.lower() != "digest":
        return {}
    found = {}
    for part in split(rest, ","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise SipError("a digest field is not name=value")
        found[name.lower()] = unquote(value)
    return found


def write_fields(fields: Mapping[str, str]) -> str:
    return "Digest " + ", ".join(
        f"{name}={quote(value) if name in QUOTED else value}" for name, value in fields.items()
    )


class Authenticator:
    """The client's half."""

    def __init__(self, credentials: Credentials | None) -> None:
        self._credentials = credentials
        self._known: dict[str, dict[str, str]] = {}
        self._counts: dict[str, int] = {}

    def learn(self, headers: Headers) -> bool:
        """Remember the challenge of a 401 or 407; False if it cannot be answered."""
        for header, answer in (("www-authenticate", "authorization"), ("proxy-authenticate", "proxy-authorization")):
            challenge = _strongest(headers.all(header))
            if challenge is not None and self._credentials is not None:
                self._known[answer] = challenge
                self._counts[answer] = 0
                return True
        return False

    def sign(self, request: Request, rng: Rng) -> None:
        """Put credentials on a request, for every challenge that is known."""
        for header, challenge in self._known.items():
            self._counts[header] += 1
            request.headers.set(header, self._answer(challenge, request, self._counts[header], rng))

    def _answer(self, challenge: dict[str, str], request: Request, count: int, rng: Rng) -> str:
        assert self._credentials is not None
        user, realm = self._credentials.username, challenge["realm"]
        algorithm: Algorithm = "SHA-256" if challenge.get("algorithm", "MD5").upper() == "SHA-256" else "MD5"
        fields = {"username": user, "realm": realm, "nonce": challenge["nonce"], "uri": request.uri}
        if "algorithm" in challenge:
            fields["algorithm"] = algorithm
        if "opaque" in challenge:
            fields["opaque"] = challenge["opaque"]
        if "qop" in challenge:
            fields |= {"qop": "auth", "nc": f"{count:08x}", "cnonce": f"{rng.randrange(2**64):016x}"}
        secret = secret_of(algorithm, user, realm, self._credentials.password)
        return write_fields({**fields, "response": answer_of(secret, request.method, fields)})


def is_stale(headers: Headers) -> bool:
    """Was the answer refused only because the nonce is old?"""
    found = [_strongest(headers.all(name)) for name in ("www-authenticate", "proxy-authenticate")]
    return any((one or {}).get("stale", "").lower() == "true" for one in found)


def _strongest(challenges: list[str]) -> dict[str, str] | None:
    usable = []
    for text in challenges:
        try:
            fields = read_fields(text)
        except SipError:
            continue
        algorithm = fields.get("algorithm", "MD5").upper()
        qops = [one.strip().lower() for one in fields.get("qop", "auth").split(",")]
        if algorithm in _HASH and "realm" in fields and "nonce" in fields and "auth" in qops:
            usable.append((ALGORITHMS.index(algorithm), fields))
    return min(usable, key=lambda pair: pair[0])[1] if usable else None


Verdict: TypeAlias = Literal["missing", "stale", "wrong", "right"]
SecretLookup: TypeAlias = Callable[[str, str, Algorithm], str | None]


class Guard:
    """The server's half. ``lookup(username, realm, algorithm)`` gives ``secret_of`` that user, or None."""

    def __init__(
        self,
        realm: str,
        lookup: SecretLookup,
        key: bytes,
        *,
        domains: tuple[str, ...] = (),
        algorithms: tuple[Algorithm, ...] = ALGORITHMS,
        nonce_seconds: float = 300.0,
        nonces: int = 10_000,
        failed: Callable[[str], float] = lambda host: 0.0,
    ) -> None:
        """``domains`` are those whose users are kept here; none: a user's name is enough, whatever the domain.

        ``failed`` is told the host that wrong credentials came from, and says for how many seconds it is refused.
        """
        self.realm, self.failed, self._lookup, self._key = realm, failed, lookup, key
        self._domains = tuple(domain.lower() for domain in domains)
        self._algorithms, self._seconds, self._most = algorithms, nonce_seconds, nonces
        self._used: dict[str, int] = {}
        self._made = self._forgotten = 0

    def challenge(self, headers: Headers, header: str, now: float, *, stale: bool) -> None:
        """Add one challenge for each algorithm, the strongest first."""
        for algorithm in self._algorithms:
            fields = {"realm": self.realm, "nonce": self._nonce(now), "algorithm": algorithm, "qop": '"auth"'}
            headers.add(header, write_fields(fields | ({"stale": "true"} if stale else {})))

    def judge(self, request: Request, header: str, now: float) -> tuple[Verdict, str]:
        """What the credentials of a request are worth, and whose they are."""
        for text in request.headers.all(header):
            try:
                fields = read_fields(text)
            except SipError:
                return "wrong", ""
            if fields.get("realm") == self.realm:
                return self._judge(fields, request, now), fields.get("username", "")
        return "missing", ""

    def is_own(self, username: str, uri: Uri) -> bool:
        """Does that user own that URI? Users prove who they are by their name, or by their whole address."""
        if not isinstance(uri, SipUri) or (self._domains and uri.host.lower() not in self._domains):
            return False
        return username in (uri.user, address_of_record(uri).removeprefix("sip:"))

    def _judge(self, fields: dict[str, str], request: Request, now: float) -> Verdict:
        algorithm = fields.get("algorithm", "MD5").upper()
        if any(name not in fields for name in ("username", "nonce", "uri", "response", "nc", "cnonce")):
            return "wrong"
        if algorithm not in self._algorithms or fields.get("qop") != "auth" or not _meant(fields["uri"], request):
            return "wrong"
        secret = self._lookup(fields["username"], self.realm, "SHA-256" if algorithm == "SHA-256" else "MD5")
        expected = answer_of(secret or "", request.method, fields)
        if (
            not hmac.compare_digest(expected.encode(), fields["response"].lower().encode("utf-8", "replace"))
            or not secret
        ):
            return "wrong"
        return "right" if self._fresh(fields["nonce"], fields["nc"], now) else "stale"

    def _nonce(self, now: float) -> str:
        """Each is another one, since two clients may ask at the same time and each counts for itself."""
        self._made += 1
        stamp = f"{now:.3f}-{self._made}"
        return f"{stamp}-{self._sign(stamp)}"

    def _sign(self, stamp: str) -> str:
        return hmac.new(self._key, stamp.encode("utf-8", "replace"), "sha256").hexdigest()[:32]

    def _fresh(self, nonce: str, count: str, now: float) -> bool:
        stamp, _, signature = nonce.rpartition("-")
        if not hmac.compare_digest(self._sign(stamp).encode(), signature.encode("utf-8", "replace")):
            return False
        if not 0 <= now - float(stamp.partition("-")[0]) <= self._seconds:
            return False
        try:
            number = int(count, 16)
        except ValueError:
            return False
        serial = _serial(nonce)
        if number <= self._used.get(nonce, 0) or (nonce not in self._used and serial <= self._forgotten):
            return False
        self._used.pop(nonce, None)
        self._used[nonce] = number
        while len(self._used) > self._most:
            oldest = next(iter(self._used))
            del self._used[oldest]
            self._forgotten = max(self._forgotten, _serial(oldest))
        return True


def _serial(nonce: str) -> int:
    """The number of a nonce of ours."""
    return int(nonce.split("-")[1])


def _meant(uri: str, request: Request) -> bool:
    """Credentials are for this server or domain: that of the request line, or what it was before a proxy looked it up.

    Not all clients sign the whole request line (SIPp signs its host), and a proxy may rewrite it; a count that is used
    once is what keeps credentials from being used for anything else.
    """
    try:
        signed, others = read_sip_uri(uri), (read_sip_uri(request.uri), request.receiver.uri)
    except SipError:
        return False
    return any(isinstance(one, SipUri) and one.host.lower() == signed.host.lower() for one in others)
