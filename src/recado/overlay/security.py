"""Who may connect: addresses, the shared key, TLS, and the one rule about listening.

Closed by default: without a shared key, and without TLS that asks the other side for a certificate, a node listens
on loopback only. The key proves membership when a link begins and hides nothing; TLS hides what is said. Between
machines that do not share a trusted network, use both.
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
import stat
from pathlib import Path

import msgspec

from recado.overlay.limits import OverlayError

log = logging.getLogger("recado.overlay")

KEY_BYTES = 16


class Address(msgspec.Struct, frozen=True, order=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def read_address(text: str) -> Address:
    """An address written ``HOST:PORT`` or ``[IPv6]:PORT``."""
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if not colon or not host or not port.isdecimal() or int(port) > 65_535 or (":" in host and not bracketed):
        raise OverlayError(f"{text!r} is no address; write HOST:PORT, such as 127.0.0.1:7701 or [::1]:7701")
    return Address(host, int(port))


def read_key(path: Path) -> bytes:
    """The shared key of an overlay: the file's content without surrounding white space."""
    try:
        key = path.read_bytes().strip()
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            log.warning("the key file %s is open to others on this machine; close it with: chmod 600 %s", path, path)
    except OSError as error:
        raise OverlayError(f"the key file {path} cannot be read: {error.strerror}") from None
    if len(key) < KEY_BYTES:
        raise OverlayError(
            f"the key in {path} has {len(key)} bytes; at least {KEY_BYTES} are needed. Make one with: "
            f"openssl rand -hex 32 > {path}"
        )
    return key


class Tls(msgspec.Struct, frozen=True):
    """Files in PEM form. With ``ca``, each side must show a certificate that this authority signed."""

    cert: Path
    key: Path
    ca: Path | None = None

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load(context)
        if self.ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._load(context)
        if self.ca is None:
            context.load_default_certs()
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            context.load_cert_chain(self.cert, self.key)
            if self.ca is not None:
                context.load_verify_locations(self.ca)
        except (OSError, ssl.SSLError) as error:
            raise OverlayError(f"TLS cannot use {self.cert}, {self.key}, {self.ca or 'no ca'}: {error}") from None


def check_listening(address: Address, key: bytes, tls: Tls | None) -> None:
    """The one place that decides where a node may listen."""
    if address.loopback or key or (tls is not None and tls.ca is not None):
        return
    raise OverlayError(
        f"{address} can be reached from other machines, so a shared key is needed (--key-file), or TLS with --tls-ca; "
        "without either, listen on 127.0.0.1"
    )
