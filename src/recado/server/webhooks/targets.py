"""Where a webhook points, and whether the service may send there.

A URL is given by a user and called by the service, from inside the network that the service is in. So a host is
resolved, every address is looked at, and the request goes to the address that was looked at, not to the name again.
Refused, unless ``webhooks.private`` allows it, is everything that is not a public unicast address: loopback, private,
link-local (there live the metadata services of clouds), multicast, reserved, and IPv6 addresses with such an IPv4
address inside (mapped, 6to4, Teredo, NAT64).
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from recado.errors import RecadoError
from recado.model.decoding import explain
from recado.net.address_policy import IpAddress, is_public

_LONGEST_URL = 2_048


class WebhookError(RecadoError):
    """A webhook that cannot be used."""


class Webhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``format`` is the form of the event in the body; ``secret`` keys the signature."""

    url: str
    secret: str = ""
    format: Literal["flat", "cloudevent"] = "flat"

    def __repr__(self) -> str:
        """Without the secret, which must not get into a log."""
        return f"Webhook({self.url!r})"


def read_webhook(members: Any, private: bool) -> Webhook:
    """The webhook of a subscription record, checked as far as it can be without asking the network."""
    try:
        webhook = msgspec.convert(members, Webhook)
    except msgspec.ValidationError as error:
        raise WebhookError(f"$.webhook{explain(error, Webhook).removeprefix('$')}") from None
    if not 0 < len(webhook.url) <= _LONGEST_URL or not webhook.url.isascii() or not webhook.url.isprintable():
        raise WebhookError(f"$.webhook.url: must be a URL in ASCII of up to {_LONGEST_URL:,} characters")
    try:
        parts = urlsplit(webhook.url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise WebhookError(f"$.webhook.url: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise WebhookError("$.webhook.url: must begin with https:// or http:// and name a host")
    if parts.username is not None or parts.fragment:
        raise WebhookError("$.webhook.url: must not hold a user, a password or a fragment; use a secret")
    if " " in webhook.url or "\\" in webhook.url:
        raise WebhookError("$.webhook.url: must not hold a space or a backslash")
    _check_literal(host, private)
    return webhook


def _check_literal(host: str, private: bool) -> None:
    """An address that stands in the URL can be judged at once; also in the short forms that resolvers read."""
    try:
        address: IpAddress = ip_address(host)
    except ValueError:
        try:
            address = IPv4Address(socket.inet_aton(host))  # 127.1, 0x7f000001, 2130706433
        except OSError:
            if host == "localhost" or host.endswith(".localhost"):
                address = IPv4Address("127.0.0.1")
            else:
                return
    check_address(address, private)


def check_address(address: IpAddress, private: bool) -> None:
    """Raise a WebhookError if no request may go there."""
    if not private and not is_public(address):
        raise WebhookError(f"$.webhook.url: {address} is not a public address, and no webhook may point there")


class Resolver:
    """Looks hosts up in threads of its own, one for each request that may be under way.

    Whoever owns a name decides how long its answer takes, and the threads of the process have other work. A look-up
    that nobody waits for any more holds its thread until it ends, so there are as many again before others wait.
    """

    def __init__(self, requests: int) -> None:
        self._most = 2 * requests
        self._threads: ThreadPoolExecutor | None = None

    async def resolve(self, url: str, private: bool) -> IpAddress:
        """The address that a request to this URL may go to; a WebhookError if any of its host's is refused."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._most, thread_name_prefix="webhook-names")
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, look_up, host, port)
        except (OSError, UnicodeError) as error:
            raise WebhookError(f"$.webhook.url: the host {host!r} cannot be found: {error}") from None
        addresses = [ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
        for address in addresses:
            check_address(address, private)
        return addresses[0]

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def look_up(host: str, port: int) -> list[Any]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
