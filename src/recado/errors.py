"""One family of errors. Each says what was wrong, where, and what would be right."""

from __future__ import annotations


class RecadoError(Exception):
    """Base of every error that Recado raises on purpose."""


class LimitError(RecadoError):
    """Something is larger, deeper or more numerous than the limits allow."""


class EventError(RecadoError):
    """An event, or the text of one, that cannot be read."""


class SubscriptionError(RecadoError):
    """A subscription record that cannot be read."""


class MissingExtraError(RecadoError, ImportError):
    """A part of Recado that needs packages which are not installed; the message has the command that installs them."""


def explain_missing(error: ModuleNotFoundError, what: str, extra: str) -> ImportError:
    """What to raise when ``what`` cannot be imported: which extra to install, or the error itself if it is a bug."""
    package = (error.name or "").partition(".")[0]
    if package in ("", "recado"):
        return error
    return MissingExtraError(
        f"{what} needs the package {package}, which is not installed: pip install 'recado[{extra}]'", name=error.name
    )


class FilterError(RecadoError):
    """A filter that cannot be accepted.

    With ``text`` and ``position`` the message shows the line with a caret under the wrong place; ``reason`` and
    ``hint`` are its words.
    """

    def __init__(
        self, reason: str, *, text: str | None = None, position: int | None = None, hint: str | None = None
    ) -> None:
        self.reason = reason
        self.text = text
        self.position = position
        self.hint = hint
        super().__init__(self._render())

    def _render(self) -> str:
        lines = [self.reason]
        if self.text is not None and self.position is not None:
            lines[0] = f"{self.reason}, at character {self.position + 1}"
            lines += _excerpt(self.text, self.position)
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


def _excerpt(text: str, position: int, width: int = 72) -> list[str]:
    """The line that holds ``position``, cut to ``width``, and a caret below it."""
    line_start = text.rfind("\n", 0, position) + 1
    line_end = text.find("\n", position)
    line_end = len(text) if line_end < 0 else line_end
    start = max(line_start, position - width // 2)
    end = min(line_end, start + width)
    before = "..." if start > line_start else ""
    after = "..." if end < line_end else ""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[start:end])
    return [f"  {before}{shown}{after}", "  " + " " * (len(before) + position - start) + "^"]
