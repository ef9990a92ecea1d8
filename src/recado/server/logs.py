"""The service's log: text for a person on a terminal, otherwise one JSON object a line, always on stderr.

What belongs to a message beside its words is given as ``extra`` and written as members of their own. Nothing secret
gets here: tokens, secrets of webhooks, passwords and the contents of events are never logged, whatever the level, and
the libraries that would log frames and headers are kept at WARNING. What still looks like a token is blotted out.
"""

from __future__ import annotations

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec

from recado.server.config import Logging

_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}
_SECRETS = re.compile(r"rcd_[A-Za-z0-9_-]{8,}|(?i:bearer)\s+\S+")
_LOUD = ("websockets", "httpx", "httpcore", "asyncio", "recado.websocket.frames", "hpack")


def configure_logs(settings: Logging, stream: TextIO | None = None) -> None:
    """Log as the configuration says; called again, it changes level and form."""
    out = sys.stderr if stream is None else stream
    text = settings.format == "text" or (settings.format == "auto" and out.isatty())
    handler = logging.StreamHandler(out)
    handler.setFormatter(TextForm() if text else JsonForm())
    root = logging.getLogger()
    for old in [held for held in root.handlers if getattr(held, "recado", False)]:
        root.removeHandler(old)
    handler.recado = True  # type: ignore[attr-defined]  # ours, to be replaced
    root.addHandler(handler)
    root.setLevel(settings.level.upper())
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns of every stranger who speaks no HTTP; metrics count


def blotted(text: str) -> str:
    """The text without anything that looks like a token."""
    return _SECRETS.sub("***", text)


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _trouble(form: logging.Formatter, record: logging.LogRecord) -> str:
    return form.formatException(record.exc_info) if record.exc_info else ""


class JsonForm(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        members: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "log": record.name,
            "text": blotted(record.getMessage()),
        }
        members |= {name: blotted(v) if isinstance(v, str) else v for name, v in _extras(record).items()}
        if trouble := _trouble(self, record):
            members["trouble"] = blotted(trouble)
        return msgspec.json.encode(members, enc_hook=repr).decode()


class TextForm(logging.Formatter):
    """``05:41:07 warning  a consumer was too slow  user=ana``."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        extras = "".join(f"  {name}={value}" for name, value in _extras(record).items())
        trouble = _trouble(self, record)
        line = f"{at} {record.levelname.lower():7}  {record.getMessage()}{extras}"
        return blotted(f"{line}\n{trouble}" if trouble else line)
