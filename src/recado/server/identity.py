"""Who is calling: from a request's token, or by name on a loopback listener that allows it.

- ``Authorization: Bearer <token>`` names a principal of the token file, always. A wrong token is a 401, also where none
  would be needed; an address that has sent too many gets 429 for every further wrong one. Another user named in
  ``X-Recado-User`` beside it is a 403.
- Without a token, and only if ``access.anonymous`` is on and both the listener and the peer are on loopback, the caller
  names the user it stands for in ``X-Recado-User`` or ``?user=``.
- A proxy on the same machine makes everybody look like loopback. So what bears the mark of a proxy needs a token: a
  header that proxies add, or HTTP/1.0, which is how some speak that add none. One that leaves no mark cannot be told
  from a local caller; behind it ``access.anonymous`` must be off.
- A page in a browser on the same machine reaches loopback, too. So a caller without a token must address the service by
  a loopback name (no rebound DNS name in ``Host``), and must not come from a page of another origin (``Origin``) or
  site (``Sec-Fetch-Site``, which browsers send also where they send no ``Origin``).

Over WebSocket a token may come in HELLO instead, because browsers cannot set headers there.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec

from recado.server.config import Access
from recado.server.metrics import Metrics
from recado.server.permissions import Denied, Principal, anonymous
from recado.server.problems import TooManyError, UnauthenticatedError
from recado.server.tokens import Tokens

# --- Rates: how much one user, or one address, may do in a time ------------------------------------------------------
#
# A bucket holds as many tokens as one period allows and is filled steadily, so a burst is fine and a flood is not. The
# buckets that nobody used for a while are full again, and are forgotten; their number is bounded whatever comes.


_MOST = 100_000


class Rates:
    """One rate, counted apart for every key. ``per_second`` 0 means no bound."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float]) -> None:
        self._per_second, self._burst, self._clock = per_second, max(burst, 1.0), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # key -> tokens, when

    def take(self, key: str, cost: float = 1.0) -> float:
        """0 if it is allowed, and counted; else how many seconds to wait."""
        if self._per_second <= 0:
            return 0.0
        tokens = self._tokens(key)
        if tokens < min(cost, self._burst):  # what is larger than the bucket passes when the bucket is full
            return (min(cost, self._burst) - tokens) / self._per_second
        self._buckets[key] = (tokens - cost, self._clock())
        self._buckets.move_to_end(key)
        if len(self._buckets) > _MOST:
            self._buckets.popitem(last=False)
        return 0.0

    def _tokens(self, key: str) -> float:
        held = self._buckets.get(key)
        if held is None:
            return self._burst
        tokens, since = held
        return min(self._burst, tokens + (self._clock() - since) * self._per_second)


# --- Who is calling: from a request's token, or by name on a loopback listener that allows it ------------------------

USER_HEADER = "x-recado-user"
_FORWARDED = re.compile(r"forwarded|via|x-forwarded.*|x-(real|client)-ip|(cf-connecting|true-client)-ip|x-envoy-.*")
_ANONYMOUS = (
    "a token is needed: send it as 'Authorization: Bearer TOKEN' (on a WebSocket also as HELLO.token); "
    "'recado token add' makes one"
)


class Caller(msgspec.Struct, frozen=True):
    """What is known of a caller before it is known who it is."""

    address: str
    headers: Mapping[str, str]  # names in lower case
    user: str = ""  # of the query
    http: str = "1.1"


class Identity:
    """Decides who a caller is, for all that comes over one HTTP listener."""

    def __init__(self, access: Access, tokens: Tokens, host: str, failures: Rates, metrics: Metrics) -> None:
        self._access, self._tokens = access, tokens
        self._failures, self._metrics = failures, metrics
        self.open = access.anonymous and is_loopback(host)

    def principal(self, caller: Caller) -> Principal:
        """The caller, or an UnauthenticatedError that says what is missing."""
        if authorization := caller.headers.get("authorization"):
            found = self.by_token(_bearer(authorization), caller.address)
            named = caller.headers.get(USER_HEADER) or found.user
            if named != found.user:
                raise Denied(f"the token is that of {found.user!r}, not of {named[:256]!r}; name no user beside it")
            return found
        return self.anonymous(caller)

    def by_token(self, token: str, address: str) -> Principal:
        found = self._tokens.find(token) if token else None
        if found is not None:
            return found
        if wait := self.failed(address):
            raise TooManyError("too many requests with a wrong token came from this address; wait a minute", wait)
        raise UnauthenticatedError("the token is not known; it may have been revoked")

    def failed(self, address: str) -> float:
        """A wrong token or password came from there; how many seconds to wait, if too many did."""
        self._metrics.failed_logins += 1
        return self._failures.take(address)

    def anonymous(self, caller: Caller) -> Principal:
        """Whom a caller without a token stands for."""
        forwarded = caller.http == "1.0" or any(map(_FORWARDED.fullmatch, caller.headers))
        if not self.open or forwarded or not is_loopback(caller.address):
            raise UnauthenticatedError(_ANONYMOUS)
        _check_not_a_page(caller.headers)
        user = caller.headers.get(USER_HEADER) or caller.user
        if not user:
            raise UnauthenticatedError(f"say who you are: a token, or a user's name in {USER_HEADER} or ?user=")
        return anonymous(self._access, user)


def is_loopback(host: str) -> bool:
    """Is this the name or the address of this machine for itself?"""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _bearer(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise UnauthenticatedError(f"the scheme of Authorization is Bearer here. {_ANONYMOUS}")
    return token.strip()


def _check_not_a_page(headers: Mapping[str, str]) -> None:
    """Without a token, nothing that a web page could have sent."""
    host = headers.get("host", "")
    if not is_loopback(_host_name(f"//{host}")):
        raise Denied("without a token the service must be addressed as localhost or by a loopback address")
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != host:
        raise Denied("without a token no page of another origin may use the service")
    if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Denied("without a token nothing that another site's page has caused may use the service")


def _host_name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
