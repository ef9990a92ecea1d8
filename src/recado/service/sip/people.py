"""Who a caller is: by digest against the tokens for SIP, or by name on loopback where the service allows that.

``access.anonymous`` means the same as for HTTP: on loopback a caller is believed. Everywhere else both the embedded
registrar and the service ask for credentials, with one guard for both: the user's name and its token for SIP
(``recado token add NAME --user USER --sip``). Such users are those of the service's own domain.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from urllib.parse import unquote

from recado.errors import RecadoError
from recado.protocols.sip.digest import Algorithm, Credentials, Guard, secret_of
from recado.protocols.sip.events import Incoming
from recado.protocols.sip.uri import read_sip_uri
from recado.service.config import Config, ConfigError
from recado.service.http.identity import is_loopback
from recado.service.permissions import Denied, Principal, anonymous
from recado.service.tokens import SIP_REALM, Tokens


class People:
    """``failed`` counts wrong credentials by the host that they came from, as those of HTTP are."""

    def __init__(self, config: Config, tokens: Tokens, failed: Callable[[str], float]) -> None:
        own = read_sip_uri(config.sip.uri)
        if own.user is None:
            raise ConfigError(f"$.sip.uri: {config.sip.uri!r} has no name; write it as sip:broker@example.org")
        self.domain, self._name = own.host.lower(), own.user
        self._access, self._tokens, self._failed = config.access, tokens, failed
        self._password = config.sip.password or secrets.token_urlsafe(32)
        self._open = config.access.anonymous and is_loopback(config.sip.host)
        if not self._open and not len(tokens):
            raise ConfigError(
                "SIP needs tokens, since callers are not believed: $.sip.host is not loopback or $.access.anonymous "
                f"is off; make one with 'recado token add NAME --user USER --sip --data {config.data}'"
            )

    @property
    def own(self) -> Credentials:
        """With which the service registers."""
        return Credentials(self._name, self._password)

    def guard(self) -> Guard | None:
        """None where callers are believed."""
        if self._open:
            return None
        key = secrets.token_bytes(32)
        return Guard(SIP_REALM, self._secret, key, domains=(self.domain,), algorithms=("SHA-256",), failed=self._failed)

    def _secret(self, username: str, realm: str, algorithm: Algorithm) -> str | None:
        if username == self._name:
            return secret_of(algorithm, username, realm, self._password)
        if username.lower().endswith(f"@{self.domain}"):
            return None  # users of this domain go by the bare name: the secret of ``ana@here`` must not prove ``ana``
        found = self._tokens.by_sip(username)
        return found[0] if found is not None else None

    def principal(self, incoming: Incoming) -> Principal:
        """Who calls; Denied if nobody that may come in."""
        name = self._named(incoming.user)
        if incoming.proven:
            found = self._tokens.by_sip(name)
            if found is None:
                raise Denied(f"user {name!r} has no token for SIP")
            return found[1]
        if not self._open or not is_loopback(incoming.source.host):
            raise Denied("callers from elsewhere have to prove who they are")
        return anonymous(self._access, name)

    def _named(self, user: str) -> str:
        uri = read_sip_uri(user)
        name = unquote(uri.user or "")
        if not name or name == self._name:
            raise RecadoError(f"{user} is no user of this service")
        return name if uri.host.lower() == self.domain else f"{name}@{uri.host.lower()}"
