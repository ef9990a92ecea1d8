"""``recado token``: who may use a service that listens beyond loopback."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from recado.cli.flags import service_config
from recado.cli.output import complain, console, for_people, write_json, write_line
from recado.cli.verb import verb
from recado.errors import RecadoError

if TYPE_CHECKING:
    from datetime import datetime

    from recado.server.tokens import TokenLine

_HELP = """\
  recado token add phone --user ana@example.org --subscribe 'stock.*' --deny-publish '*'
  recado token ls
  recado token revoke phone

A token is shown once, when it is made; the file keeps only its hash. A service that runs takes changes up at once.
"""

app = verb("token", epilogue=_HELP)
_NAME_CHARS = 100
Patterns = Annotated[tuple[str, ...], Parameter(negative=())]


@app.command
def add(
    name: str,
    /,
    *,
    user: str,
    admin: bool = False,
    sip: bool = False,
    expires: str = "",
    publish: Patterns = (),
    subscribe: Patterns = (),
    deny_publish: Patterns = (),
    deny_subscribe: Patterns = (),
    config: Path | None = None,
    data: Path | None = None,
) -> None:
    """Make a token, and print it.

    Parameters
    ----------
    name
        What the token is called, in lists and logs.
    user
        The user whom its holder acts for.
    admin
        Its holder may do everything for everybody.
    sip
        It is the user's password over SIP, too.
    expires
        When it ends: an instant such as 2026-12-31T00:00:00Z, or a span from now such as 30d or 12h.
    publish
        A pattern of event types that may be published; may be repeated. Without one: all.
    subscribe
        A pattern of event types that may be subscribed to; may be repeated. Without one: all.
    deny_publish
        A pattern of event types that may not be published, whatever is allowed.
    deny_subscribe
        A pattern of event types that may not be subscribed to, whatever is allowed.
    config
        The configuration of the service, whose token file is used.
    data
        The data folder of the service, instead of the configured one.
    """
    from recado.server.tokens import add_token

    if not name.strip() or not name.isprintable() or len(name) > _NAME_CHARS:
        raise RecadoError(f"{name[:80]!r} cannot name a token; use up to {_NAME_CHARS} characters that can be seen")
    rights = {"admin": admin, "publish": publish or ("*",), "subscribe": subscribe or ("*",)}
    path = _path(config, data)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    denied = {"deny_publish": deny_publish, "deny_subscribe": deny_subscribe}
    token = add_token(path, name, user, sip=sip, expires_at=_instant(expires) if expires else None, **rights, **denied)
    _tell_service(config, data)
    write_line(token)
    complain(f"the token {name!r} acts for {user}; this is the only time that it is shown")


@app.command
def ls(*, config: Path | None = None, data: Path | None = None, json: bool = False) -> None:
    """List the tokens, without the tokens themselves.

    Parameters
    ----------
    config
        The configuration of the service.
    data
        The data folder of the service, instead of the configured one.
    json
        One JSON object a line, also on a terminal.
    """
    from recado.server.tokens import read_tokens

    path = _path(config, data)
    lines = read_tokens(path) if path.exists() else []
    if not for_people(json):
        for line in lines:
            write_json(_members(line))
        return
    from rich.table import Table

    table = Table("name", "user", "may publish", "may subscribe to", "administrator", "expires")
    for line in lines:
        expires = "" if line.expires_at is None else line.expires_at.isoformat()
        table.add_row(line.name, line.user, *_rights(line), "yes" if line.admin else "", expires)
    console().print(table if lines else f"there is no token in {path}")


@app.command
def revoke(name: str, /, *, config: Path | None = None, data: Path | None = None) -> None:
    """Take a token back.

    Parameters
    ----------
    name
        What it is called.
    config
        The configuration of the service.
    data
        The data folder of the service, instead of the configured one.
    """
    from recado.server.tokens import revoke_token

    revoke_token(_path(config, data), name)
    told = _tell_service(config, data)
    complain(f"the token {name!r} is revoked" + (", and what was open by it has ended" if told else ""))


def _path(config: Path | None, data: Path | None) -> Path:
    from recado.server.server import token_path

    return token_path(service_config(config, data))


def _tell_service(config: Path | None, data: Path | None) -> bool:
    """Let the service that runs read the file again; False if none does."""
    from recado.server.control import Request, ask

    return ask(Path(service_config(config, data).data), Request(tokens=True))


def _instant(text: str) -> datetime:
    from datetime import UTC, datetime, timedelta

    from recado.model.values import parse_time

    units = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
    if text[-1] in units and text[:-1].isdecimal() and len(text) < 9:
        return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=int(text[:-1]) * units[text[-1]])
    try:
        found = parse_time(text)
    except ValueError as error:
        raise RecadoError(f"--expires: {error}; write an instant such as 2026-12-31T00:00:00Z, or 30d") from None
    if found <= datetime.now(UTC):
        raise RecadoError(f"--expires: {text} is over already")
    return found


def _members(line: TokenLine) -> dict[str, Any]:
    """As it is listed: of what suffices to log in, only whether it is there."""
    import msgspec

    members = msgspec.structs.asdict(line)
    del members["sha256"]
    expires = {"expires_at": line.expires_at.isoformat()} if line.expires_at is not None else {}
    return {**members, "sip": bool(line.sip), **expires}


def _rights(line: TokenLine) -> tuple[str, str]:
    return _patterns(line.publish, line.deny_publish), _patterns(line.subscribe, line.deny_subscribe)


def _patterns(allowed: tuple[str, ...], denied: tuple[str, ...]) -> str:
    return ", ".join(allowed) + (f" but not {', '.join(denied)}" if denied else "")
