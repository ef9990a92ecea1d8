"""What can go wrong on an overlay."""

from __future__ import annotations

from recado.errors import RecadoError


class OverlayError(RecadoError):
    """A node that cannot be started, reached or asked."""


class LinkError(OverlayError):
    """A connection that cannot go on; the message is its reason, told to the peer and to the log."""


class HelloError(LinkError):
    """A connection that never became a link: another version, overlay or key."""
