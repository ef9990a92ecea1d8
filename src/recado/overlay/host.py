"""Run nodes in this process until they are told to stop: by a signal, over the control socket, or by a failure.

As a program, ``python -m recado.overlay.host FOLDER NODE…`` runs nodes of the overlay that was launched in the folder.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from recado.errors import RecadoError
from recado.overlay.control import Control
from recado.overlay.node import Node

log = logging.getLogger("recado.overlay")


def log_to_stderr(level: int = logging.INFO) -> None:
    """One line for whatever happens to a node."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(level)


async def run_nodes(nodes: Iterable[tuple[Node, Path]]) -> int:
    """Each node with its control socket. Exit code 0 if all were told to stop, 1 if one failed."""
    signals = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.set)
    running = [asyncio.create_task(_run_one(node, path, signals)) for node, path in nodes]
    try:
        return max(await asyncio.gather(*running))
    finally:
        signals.set()
        await asyncio.gather(*running, return_exceptions=True)


async def _run_one(node: Node, path: Path, signals: asyncio.Event) -> int:
    control = Control(node, path)
    await control.claim()
    try:
        await node.start()
        await control.start()
        waits = [asyncio.create_task(event.wait()) for event in (signals, node.stopping)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    finally:
        await control.close()
        await node.stop()
    return 1 if node.failure else 0


def main(arguments: list[str]) -> int:
    from recado.overlay.launch import launched_nodes  # noqa: PLC0415  # which starts this program

    folder, *names = arguments
    log_to_stderr()
    try:
        return asyncio.run(run_nodes(launched_nodes(Path(folder), names)))
    except RecadoError as error:
        log.critical("%s", error)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
