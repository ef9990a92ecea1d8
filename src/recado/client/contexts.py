"""Which service is meant: a flag, else the environment, else a named context, else the one on this machine.

Contexts are kept in ``contexts.json`` in the XDG configuration folder (``$XDG_CONFIG_HOME/recado``, or
``~/.config/recado``), readable by its owner alone, because a URL may hold a token. RECADO_URL names a service,
RECADO_CONTEXT a context, RECADO_TOKEN a token that the URL need not show.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from recado.client.errors import AddressError
from recado.client.urls import DEFAULT_URL, Target, parse_url

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Contexts(msgspec.Struct):
    """Named URLs, and which of them is selected."""

    selected: str = ""
    urls: dict[str, str] = {}


def contexts_path(environment: Mapping[str, str] = os.environ) -> Path:
    folder = environment.get("XDG_CONFIG_HOME") or ""
    base = Path(folder) if folder.startswith("/") else Path(environment.get("HOME") or Path.home()) / ".config"
    return base / "recado" / "contexts.json"


def read_contexts(path: Path | None = None) -> Contexts:
    path = path or contexts_path()
    try:
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except (OSError, msgspec.DecodeError) as error:
        raise AddressError(f"the contexts in {path} cannot be read: {error}; mend the file, or remove it") from None


def write_contexts(contexts: Contexts, path: Path | None = None) -> None:
    path = path or contexts_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.unlink(missing_ok=True)  # one that a crash left might be open to others
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
        stream.write(msgspec.json.format(msgspec.json.encode(contexts)))
    temporary.replace(path)


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise AddressError(f"{name!r} cannot name a context; use letters, digits, dot, dash and underscore")
    return name


def resolve(url: str | None = None, context: str | None = None, environment: Mapping[str, str] = os.environ) -> Target:
    """The service that is meant: flags before the environment before the selected context."""
    found = url or (None if context else environment.get("RECADO_URL")) or _from_contexts(context, environment)
    target = parse_url(found or DEFAULT_URL)
    token = environment.get("RECADO_TOKEN", "")
    return msgspec.structs.replace(target, token=token) if token and not target.token else target


def _from_contexts(context: str | None, environment: Mapping[str, str]) -> str | None:
    contexts = read_contexts(contexts_path(environment))
    name = context or environment.get("RECADO_CONTEXT") or contexts.selected
    if not name:
        return None
    if name not in contexts.urls:
        known = ", ".join(contexts.urls) or "none"
        raise AddressError(f"there is no context {name!r} (there are: {known}); recado context add NAME URL makes one")
    return contexts.urls[name]
