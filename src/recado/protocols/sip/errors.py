"""What can be wrong with a SIP message, and which status answers it (RFC 3261, section 21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recado.errors import RecadoError

if TYPE_CHECKING:
    from recado.protocols.sip.headers import Headers


class SipError(RecadoError):
    """A message, or a part of one, that cannot be accepted; or a request that makes no sense.

    ``headers`` is what could be read of a request in spite of it, so that it can be answered with ``status``; it is
    None for what deserves no answer (a response, or nothing that looks like SIP).
    """

    def __init__(self, message: str, status: int = 400, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
