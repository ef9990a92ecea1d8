"""The end of a listening socket, without losing a connection that is just being accepted."""

from __future__ import annotations

import asyncio

_TURNS = 3


async def stop_listening(server: asyncio.Server) -> None:
    """Accept nothing more, let what was accepted reach its callback, and close.

    A connection takes some turns of the loop from being accepted to the callback. If the server is closed meanwhile,
    asyncio drops the connection without closing it.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    server.close()
