"""A line: what carries frames between an agent and the service, whatever it is made of.

``dial`` begins an attempt and returns; the ears hear ``up`` once or ``down`` once, then ``heard`` for every frame, and
``down`` at the end. After ``hang_up`` the ears hear nothing more of that connection.
"""

from __future__ import annotations

from typing import Protocol


class Ears(Protocol):
    def up(self) -> None: ...

    def down(self, reason: str, code: int = 0, *, hopeless: bool = False) -> None:
        """``code`` is an HTTP status, if the service answered and said no.

        ``hopeless`` says that the address leads nowhere: who never was connected need not try again.
        """
        ...

    def heard(self, frame: bytes) -> None: ...

    def seen(self) -> tuple[int | None, str]:
        """The last notification that the application has done with, and whose log it is of."""
        ...

    def reachable(self) -> None:
        """The device has another address, or one again."""
        ...


class Line(Protocol):
    """``greets``: must the agent say who it is? ``frame_bytes``: how long a frame should be at most."""

    greets: bool
    frame_bytes: int

    def dial(self, ears: Ears) -> None: ...

    def send(self, frame: bytes) -> None: ...

    def hang_up(self) -> None: ...

    async def close(self) -> None:
        """Let what was sent go out, as far as that is quick, and end for good."""
        ...
