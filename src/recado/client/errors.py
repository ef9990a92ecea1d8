"""What can go wrong for an application that uses the client."""

from __future__ import annotations

import msgspec

from recado.errors import RecadoError


class ClientError(RecadoError):
    """Base of the client's errors."""


class AddressError(ClientError):
    """A URL, a context or an environment variable that names no service."""


class Unreachable(ClientError):  # noqa: N818  # it says what happened
    """The service did not answer."""


class NotAllowed(ClientError):  # noqa: N818  # it says what happened
    """The service does not let this user in, or does not let it do this."""


class Refused(ClientError):  # noqa: N818  # it says what happened
    """The service took a request and said no; ``code`` is an HTTP status."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Dropped(ClientError):  # noqa: N818  # it says what happened
    """A request that waited for a connection and was dropped; whether the service ever saw it is not known."""


class SessionEnded(ClientError):  # noqa: N818  # it says what happened
    """The session is over: closed here, taken over by the same device elsewhere, or ended by an operator."""


class TooManyInFlight(ClientError):  # noqa: N818  # it says what happened
    """More publications wait for their acknowledgement than ``in_flight`` allows."""


def problem_detail(content: bytes) -> str:
    """What the body of a refusing HTTP answer says to a person."""
    try:
        return str(msgspec.json.decode(content)["detail"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return content.decode(errors="replace")[:500].strip()


def refusal(code: int, text: str) -> ClientError:
    """The error that an answer of the service stands for."""
    return NotAllowed(text) if code in (401, 403) else Refused(code, text)
