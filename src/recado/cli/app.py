"""The command ``recado``: its verbs, its exit codes, and nothing that is slow to import.

Verbs are registered by import path, so ``recado --help`` loads neither numba nor pyarrow. A verb returns its exit code
or None, for 0; ``recado.cli.verb`` says what each code means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cyclopts import App, Group

from recado.cli.output import write_line
from recado.cli.verb import run_app, verb
from recado.version import __version__

_HELP = """\
Content-based publish/subscribe: say what happened, say what you care about.

To begin with:

  recado demo                                       a sample, matched and shown
  recado match subscriptions.ndjson events.ndjson   who cares about what
  recado filter check 'Price < 25 and Stock in {"PETR4", "VALE3"}'

With an event service, in three terminals:

  recado serve
  recado sub 'Price < 25' --type Tick
  recado pub Tick Stock=PETR4 Price=24.9

On a terminal the output is for people; in a pipe, or with --json, it is one JSON object a line.
"""

_EPILOGUE = """\
Exit codes: 0 done, or yes; 1 failed, or no; 2 bad usage or bad input; 3 a --timeout is over; 130 interrupted; 141 the
reader of the output went away. RECADO_URL, RECADO_TOKEN and RECADO_CONTEXT say which service is meant; NO_COLOR is
respected.
"""

_VERBS = {
    "Filters and matching": {
        "demo": "Match the sample that Recado ships and show the result.",
        "match": "Match a file of events against a file of subscriptions.",
        "filter": "Check, explain and compare filters.",
        "semantics": "Understand names: compare, align, add languages.",
    },
    "The event service": {
        "serve": "Run the event service.",
        "pub": "Publish events.",
        "sub": "Subscribe, and show what comes.",
        "replay": "Show events of the service's log.",
        "session": "List, show and end sessions.",
        "mailbox": "List, peek into, drain and purge mailboxes.",
        "subscription": "List, renew and cancel subscriptions.",
        "context": "Name services, and choose one.",
        "token": "Make, list and revoke the tokens of a service.",
        "backup": "Copy the data of a service, also while it runs.",
        "log": "Look at the event log of a service, check it, repair it.",
        "top": "Watch a service: rates, latencies, lag, trouble.",
        "doctor": "Look for what stands against a service, and say what to do.",
    },
    "On Spark": {
        "pipeline": "Match and analyse archives and streams.",
    },
    "Without a broker": {
        "node": "Run a node of an overlay, or use one that runs.",
        "overlay": "Start, watch and stop many nodes on this machine.",
        "radio": "Run a sensor network on this machine, with an air between its nodes.",
        "sim": "Run scenarios of the simulator and draw the results.",
    },
    "This command": {
        "completion": "Complete words in bash, zsh and fish.",
        "kernels": "Compile the kernels of the index ahead of their use.",
    },
}
_EXTRAS = {
    "demo": "all",
    "match": "matching",
    "filter": "matching",
    "kernels": "matching",
    "semantics": "semantics",
    "serve": "server",
    "backup": "server",
    "token": "server",
    "log": "server",
    "doctor": "server",
    "pipeline": "spark",
    "sim": "sim",
    "radio": "sim",
}
"""What installs the packages that a verb needs beyond those of the client."""
_PLACES = {"pipeline": "recado.cli.pipeline.app:app", "completion": "recado.cli.app:completion"}
"""Verbs that are not in a module of their name."""


def _make_app() -> App:
    made = verb("recado", help=_HELP, epilogue=_EPILOGUE, version=__version__)
    for height, (title, verbs) in enumerate(_VERBS.items()):
        group = Group(title, sort_key=height)
        made["--help"].group = made["--version"].group = group  # in the last one
        for number, (name, help) in enumerate(verbs.items()):
            place = _PLACES.get(name, f"recado.cli.{name}:app")
            made.command(place, name=name, help=help, group=group, sort_key=number)
    return made


app = _make_app()

_COMPLETION_HELP = """\
  eval "$(recado completion bash)"                  in this shell; in ~/.bashrc, in every one
  recado completion bash > ~/.local/share/bash-completion/completions/recado
  recado completion zsh > ~/.zfunc/_recado          with ~/.zfunc in fpath
  recado completion fish > ~/.config/fish/completions/recado.fish
"""

completion = verb("completion", epilogue=_COMPLETION_HELP)


@completion.default
def write_completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Write a script that completes the words of this command.

    Parameters
    ----------
    shell
        The shell that will read it.
    """
    write_line(app.generate_completion(shell=shell))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    return run_app(app, arguments, _EXTRAS)
