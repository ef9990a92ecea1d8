"""Ports that nobody else is given before the node takes them."""

import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from recado.overlay import launch as ports
from recado.overlay.addresses import Address
from recado.overlay.launch import free_address
from recado.overlay.limits import OverlayError


def test_ports_differ_are_free_and_not_among_those_the_system_gives_away():
    with ExitStack() as stack:
        found = [free_address("127.0.0.1:0", stack) for _ in range(200)]
    assert len(set(found)) == 200
    with socket.socket() as outgoing:
        outgoing.bind(("127.0.0.1", 0))
        assert max(address.port for address in found) < outgoing.getsockname()[1]
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", found[0].port))


def test_a_given_port_stays():
    with ExitStack() as stack:
        assert free_address("127.0.0.1:7", stack) == Address("127.0.0.1", 7)


def test_a_host_that_is_not_here_is_named():
    with ExitStack() as stack, pytest.raises(OverlayError, match=r"cannot listen on 192\.0\.2\.1: "):
        free_address("192.0.2.1:0", stack)


def test_no_free_port_is_said(monkeypatch):
    monkeypatch.setattr(ports, "_LOWEST", 10_000)
    monkeypatch.setattr(ports, "_end", lambda: 10_001)
    with ExitStack() as stack, socket.socket() as taken:
        taken.bind(("127.0.0.1", 10_000))
        with pytest.raises(OverlayError, match="has no free port between 10000 and 10001"):
            free_address("127.0.0.1:0", stack)


@pytest.mark.parametrize("told", ["", "x y", "1024 65535"])
def test_where_the_system_does_not_tell_the_usual_range_is_kept_free(told, monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: told)
    assert ports._end() == 32_768
