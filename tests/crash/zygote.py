"""A program that starts services: it imports everything once, and forks a ``recado serve`` for every line it reads.

``python zygote.py`` reads the arguments of a service as a JSON list and answers with its process id, then with a second
line when that process has ended: its id and how it ended. Importing takes seconds and forking does not, so that a test
can kill and restart a service often.
"""

from __future__ import annotations

import json
import os
import sys
import threading

import recado.server.server  # noqa: F401  # what takes long
from recado.cli.app import main


def serve(arguments: list[str]) -> int:
    child = os.fork()
    if child == 0:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        os._exit(main(arguments))
    return child


def wait(child: int) -> None:
    _, status = os.waitpid(child, 0)
    say(["ended", child, os.waitstatus_to_exitcode(status)])


def say(words: list[object]) -> None:
    os.write(1, (json.dumps(words) + "\n").encode())


if __name__ == "__main__":
    for line in sys.stdin:
        child = serve(json.loads(line))
        say(["started", child])
        threading.Thread(target=wait, args=(child,), daemon=True).start()
