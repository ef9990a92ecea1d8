"""A process that hosts nodes ends with the right code."""

import asyncio
import os
import signal

import pytest

from overlay.helpers import node
from recado.model.subscription import Subscription
from recado.overlay.addresses import running_nodes, socket_path
from recado.overlay.launch import run_nodes
from recado.overlay.limits import OverlayError
from recado.overlay.state import FileState


def host(nodes, then):
    """Run the nodes in this process as a program would, and do something meanwhile."""

    async def whole():
        hosting = asyncio.create_task(run_nodes([(one, socket_path("recado", one.name)) for one in nodes]))
        while not all(socket_path("recado", one.name).exists() for one in nodes) and not hosting.done():
            await asyncio.sleep(0.005)
        await then()
        return await asyncio.wait_for(hosting, 60)

    return asyncio.run(whole())


def test_a_signal_stops_all_nodes():
    async def then():
        os.kill(os.getpid(), signal.SIGTERM)

    assert host([node("a"), node("b")], then) == 0
    assert running_nodes() == []


def test_nodes_can_be_stopped_one_by_one():
    a, b = node("a"), node("b")

    async def then():
        a.ask_to_stop()
        await a.stopped.wait()
        assert not b.stopped.is_set()
        b.ask_to_stop()

    assert host([a, b], then) == 0


def test_a_node_that_cannot_save_fails(tmp_path, monkeypatch, caplog):
    a = node("a", state=tmp_path)

    async def then():
        monkeypatch.setattr(FileState, "commit", broken)
        with pytest.raises(OverlayError, match="the disk is full"):
            await a.subscribe(Subscription("s"))

    def broken(self):
        raise OSError("the disk is full")

    assert host([a], then) == 1
    assert "a: the state cannot be saved: the disk is full" in caplog.text


def test_one_node_that_cannot_start_ends_the_process(tmp_path):
    async def then():
        pass

    with pytest.raises(OverlayError, match="a shared key is needed"):
        host([node("a"), node("b", listen="0.0.0.0:0")], then)
    assert running_nodes() == []
