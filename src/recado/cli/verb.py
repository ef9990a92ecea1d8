"""What all verbs share: exit codes, and how their help looks."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

Source = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""A positional text that may be ``-``, for standard input."""

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def verb(name: str, *, help: str | None = None, epilogue: str = "", version: str | None = None) -> App:
    """An App with the house's settings: plain help that keeps its line breaks, and no ``--no-flag`` for every flag."""
    return App(
        name=name,
        help=help,
        help_epilogue=epilogue,
        help_format="plaintext",
        version=version,
        default_parameter=Parameter(negative=()),
    )
