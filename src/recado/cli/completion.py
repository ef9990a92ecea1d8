"""``recado completion``: what a shell needs to complete verbs and options."""

from __future__ import annotations

from typing import Literal

from recado.cli.output import write_line
from recado.cli.verb import verb

_HELP = """\
  eval "$(recado completion bash)"                  in this shell; in ~/.bashrc, in every one
  recado completion bash > ~/.local/share/bash-completion/completions/recado
  recado completion zsh > ~/.zfunc/_recado          with ~/.zfunc in fpath
  recado completion fish > ~/.config/fish/completions/recado.fish
"""

app = verb("completion", epilogue=_HELP)


@app.default
def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Write a script that completes the words of this command.

    Parameters
    ----------
    shell
        The shell that will read it.
    """
    from recado.cli.app import app as recado  # it knows all verbs, this one too

    write_line(recado.generate_completion(shell=shell))
