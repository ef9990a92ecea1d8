"""Nodes with control sockets in a thread of this process, for programs that ask them from outside."""

import asyncio
import contextlib
import threading

from recado.overlay.addresses import socket_path
from recado.overlay.control import control_of


@contextlib.contextmanager
def background(*nodes):
    """Run the nodes until the block ends; links are whatever their peers say. ``call`` runs a coroutine there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def call(work):
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    async def begin():
        for node in nodes:
            await node.start()
            control = control_of(node, socket_path(node.overlay, node.name))
            controls.append(control)
            await control.claim()
            await control.start()

    async def finish():
        for control in controls:
            await control.close()
        for node in nodes:
            await node.stop()

    controls = []
    try:
        call(begin())
        yield call
    finally:
        call(finish())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
