"""One attempt at a webhook: a signed POST to a checked address, of whose answer little is read.

The signature is ``HMAC-SHA256(secret, timestamp + "." + body)`` in hexadecimal; the timestamp is part of it, so that a
request that someone recorded is of no use later. Redirects are not followed, proxies of the environment not used, at
most some kilobytes of the answer are read, and everything together may take ``webhooks.timeout_seconds``.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ssl
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from recado import __version__
from recado.errors import RecadoError
from recado.model.codec import read_event, write_cloudevent
from recado.service.webhooks.targets import Address, Webhook, WebhookError, resolve

if TYPE_CHECKING:
    import httpx

_ANSWER_BYTES = 4_096
_JSON, _CLOUDEVENT = "application/json", "application/cloudevents+json"


class Outcome(NamedTuple):
    """``status`` is 0 if there was no answer; ``after`` is what Retry-After asks for, in seconds."""

    status: int
    reason: str
    after: float = 0.0

    @property
    def taken(self) -> bool:
        return 200 <= self.status < 300


class Sending(NamedTuple):
    """A notification on its way to a webhook."""

    sub_id: str
    nid: int
    event_id: str
    body: bytes
    media: str


def sending(webhook: Webhook, sub_id: str, nid: int, event: bytes) -> Sending:
    """The request's body: the event as it is stored, or as a CloudEvent where that is asked for and possible."""
    read = read_event(event)
    if webhook.format == "cloudevent":
        try:
            return Sending(sub_id, nid, read.id, write_cloudevent(read), _CLOUDEVENT)
        except RecadoError:
            pass  # without a type or a source it cannot be one
    return Sending(sub_id, nid, read.id, event, _JSON)


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """The value of ``Recado-Signature``."""
    digest = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


def headers(webhook: Webhook, what: Sending, attempt: int, timestamp: str) -> dict[str, str]:
    found = {
        "content-type": what.media,
        "user-agent": f"recado/{__version__}",
        "recado-subscription": _ascii(what.sub_id),
        "recado-nid": str(what.nid),
        "recado-attempt": str(attempt),
        "recado-timestamp": timestamp,
        "x-subscription-id": _ascii(what.sub_id),
        "x-notification-id": _ascii(what.event_id),
    }
    if webhook.secret:
        found["recado-signature"] = sign(webhook.secret, timestamp, what.body)
    return found


def _ascii(text: str) -> str:
    """A text that a header can hold: anything beyond printable ASCII percent-encoded."""
    return "".join(c if " " < c < "\x7f" and c != "%" else "".join(f"%{b:02X}" for b in c.encode()) for c in text)


class Sender:
    """Sends to one target, over one connection at a time that is kept while it is used."""

    def __init__(self, private: bool, seconds: float, tls: ssl.SSLContext) -> None:
        import httpx  # noqa: PLC0415  # slow to import, and most services call no webhook

        self._private, self._seconds = private, seconds
        self._errors = (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError, UnicodeError)
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=15)
        self._client = httpx.AsyncClient(verify=tls, trust_env=False, follow_redirects=False, limits=limits)

    async def close(self) -> None:
        await self._client.aclose()

    async def send(self, webhook: Webhook, what: Sending, attempt: int, timestamp: str) -> Outcome:
        """One attempt; whatever goes wrong is an outcome."""
        try:
            async with asyncio.timeout(self._seconds):
                address = await resolve(webhook.url, self._private)
                return await self._post(webhook, what, headers(webhook, what, attempt, timestamp), address)
        except TimeoutError:
            return Outcome(0, f"no answer within {self._seconds:g} s")
        except WebhookError as error:
            return Outcome(0, str(error))
        except self._errors as error:
            return Outcome(0, f"{type(error).__name__}: {error}"[:300])

    async def _post(self, webhook: Webhook, what: Sending, fields: dict[str, str], address: Address) -> Outcome:
        parts = urlsplit(webhook.url)
        host = parts.hostname or ""
        literal = f"[{address}]" if address.version == 6 else str(address)
        place = literal if parts.port is None else f"{literal}:{parts.port}"
        url = urlunsplit((parts.scheme, place, parts.path or "/", parts.query, ""))
        request = self._client.build_request(
            "POST", url, content=what.body, headers={**fields, "host": parts.netloc},
            extensions={"sni_hostname": host},
        )  # fmt: skip
        response = await self._client.send(request, stream=True)
        try:
            await _read_little(response)
        finally:
            await response.aclose()
        return Outcome(response.status_code, f"status {response.status_code}", _retry_after(response))


async def _read_little(response: httpx.Response) -> None:
    size = 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > _ANSWER_BYTES:
            return


def _retry_after(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        asked = parsedate_to_datetime(text).timestamp() - parsedate_to_datetime(response.headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError):
        return 0.0
    return max(asked, 0.0)
