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
    from recado.server.tokens import TokenLine

_HELP = """\
  recado token add phone --user ana@example.org --subscribe 'stock.*' --deny-publish '*'
  recado token ls
  recado token revoke phone

A token is shown once, when it is made; the file keeps only its hash. A service that runs takes changes up on SIGHUP.
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
    path.parent.mkdir(parents=True, exist_ok=True)
    token = add_token(path, name, user, sip=sip, **rights, deny_publish=deny_publish, deny_subscribe=deny_subscribe)
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
            write_json({name: value for name, value in _members(line).items() if name != "sha256"})
        return
    from rich.table import Table

    table = Table("name", "user", "may publish", "may subscribe to", "administrator")
    for line in lines:
        table.add_row(line.name, line.user, *_rights(line), "yes" if line.admin else "")
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
    complain(f"the token {name!r} is revoked; a service that runs learns of it by SIGHUP")


def _path(config: Path | None, data: Path | None) -> Path:
    from recado.server.server import token_path

    return token_path(service_config(config, data))


def _members(line: TokenLine) -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(line)


def _rights(line: TokenLine) -> tuple[str, str]:
    return _patterns(line.publish, line.deny_publish), _patterns(line.subscribe, line.deny_subscribe)


def _patterns(allowed: tuple[str, ...], denied: tuple[str, ...]) -> str:
    return ", ".join(allowed) + (f" but not {', '.join(denied)}" if denied else "")
