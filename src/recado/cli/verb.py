"""What all verbs share: exit codes, kinds of parameters, and how their help looks.

====  ==============================================================================================
0     done; for a question: yes
1     failed, or for a question: no
2     bad usage or bad input; nothing was done, or nothing more
3     a time that was given with ``--timeout`` is over
130   interrupted, as the shell says it (128 + SIGINT)
141   whoever read the output went away, as ``head`` does (128 + SIGPIPE); nothing is said about it
====  ==============================================================================================
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter
from cyclopts.validators import Number

from recado.cli.output import complain
from recado.errors import RecadoError, explain_missing

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

OK, FAILED, BAD_INPUT, TIMED_OUT, INTERRUPTED, READER_GONE = 0, 1, 2, 3, 130, 141


def _no_option(_: Any, value: str | None) -> None:
    if value is not None and value.startswith("--"):
        raise ValueError("There is no such option.")


Source = Annotated[str, Parameter(allow_leading_hyphen=True, validator=_no_option)]
"""A positional text that may be ``-``, for standard input, or begin with a minus sign."""


def _positive(_: Any, value: float | None) -> None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise ValueError("It must be a number greater than 0.")


Positive = Annotated[float | None, Parameter(validator=_positive)]
"""A number greater than 0, where there is no limit without one; ``nan`` and ``inf`` are none."""

AtMost = Annotated[int | None, Parameter(validator=Number(gte=1))]
"""How many; without it, all."""


def import_from_here() -> None:
    """Let a user's own ``module:Class`` be in the current folder; what is installed comes first."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def verb(name: str, *, help: str | None = None, epilogue: str = "", version: str | None = None) -> App:
    """An App with the house's settings: plain help, and no ``--no-flag`` for every flag."""
    return App(
        name=name,
        help=help,
        help_epilogue=join_lines(epilogue),
        help_format="plaintext",
        help_formatter=_Help(),
        version=version,
        default_parameter=Parameter(negative=(), show_default=_format_default),
        error_formatter=_format_error,
    )


def run_app(app: App, arguments: Sequence[str] | None = None, extras: Mapping[str, str] | None = None) -> int:
    """Run one command of an app, by default that of this process; its exit code. What goes wrong is said on stderr.

    ``extras`` has, by verb, the extra of the package that installs what the verb needs.
    """
    try:
        given = _texts(arguments)
        result = app(given, exit_on_error=False, print_error=True, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError:
        return BAD_INPUT  # already printed
    except ImportError as error:
        missing = _find_missing(error)
        if missing is None or not extras:
            raise
        name = next((text for text in given if not text.startswith("-")), "")
        complain(f"recado: {explain_missing(missing, f'recado {name}', extras.get(name, 'all'))}")
        return BAD_INPUT
    except RecadoError as error:
        complain(f"recado: {error}")
        return BAD_INPUT
    except BrokenPipeError:
        return _reader_gone()
    except OSError as error:
        complain(f"recado: {error.filename}: {error.strerror}" if error.filename else f"recado: {error}")
        return FAILED
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        return _reader_gone()  # it is rich that met the closed pipe
    except KeyboardInterrupt:
        return INTERRUPTED
    return result if isinstance(result, int) else OK


def _find_missing(error: BaseException | None) -> ModuleNotFoundError | None:
    """The package that is not installed, if that is the cause; what was not found in Recado itself is a bug."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            return None if (error.name or "recado").partition(".")[0] == "recado" else error
        error = error.__cause__
    return None


def _texts(arguments: Sequence[str] | None) -> Sequence[str]:
    """The arguments; a RecadoError if one is not UTF-8, because no filter, name or value could hold it."""
    given = sys.argv[1:] if arguments is None else arguments
    for number, text in enumerate(given, 1):
        try:
            text.encode()
        except UnicodeEncodeError:
            raise RecadoError(f"argument {number}, {text!a}, is not UTF-8 text") from None
    return given


def _reader_gone() -> int:
    """Whoever read our output went away. Python would complain once more when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return READER_GONE


def _format_default(default: Any) -> str | None:
    """A default as help shows it; that a flag is off and a text empty goes without saying."""
    return None if default is False or default in ("", (), None) else str(default)


def _format_error(error: CycloptsError) -> str:
    """Bad usage reads like every other error."""
    return f"recado: {error}"


def join_lines(text: str) -> str:
    """Paragraphs on one line each, for the terminal to break; lines that are indented stay as they are."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text)


class _Help:
    """Help that fills the terminal, however wide the lines of a docstring are."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        from cyclopts.help import DefaultFormatter

        DefaultFormatter()(console, options, panel)

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        from cyclopts.help import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)

    def render_description(self, console: Console, _: ConsoleOptions, description: Any) -> None:
        text = getattr(description, "primary_renderable", None)
        if text is not None:
            console.print(join_lines(text.plain) + "\n", markup=False, highlight=False)
