"""Strangers can fill neither a log nor the table of TLS handshakes, and write no lines of their own."""

import asyncio
import logging
import socket
import ssl
from pathlib import Path

import msgspec
import pytest

from overlay.helpers import QUICK, Hand, node, run, until
from recado.overlay.addresses import Tls
from recado.overlay.hello import Refuse
from recado.overlay.limits import Complaints, reason_of, sanitize

CERTIFICATES = Path(__file__).parent / "certificates"
TLS = Tls(CERTIFICATES / "node.pem", CERTIFICATES / "node.key", CERTIFICATES / "ca.pem")


def test_so_many_lines_a_minute_and_how_many_were_left_out(monkeypatch, caplog):
    async def test():
        complaints, now = Complaints("a", most=3), 1000.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
        for number in range(10):
            complaints.add(f"no {number}")
        assert caplog.messages == ["a: no 0", "a: no 1", "a: no 2"]
        now += 61
        complaints.add("later")
        complaints.add("and later")
        assert caplog.messages[3:] == [
            "a: 7 more connections failed, which were not logged one by one",
            "a: later",
            "a: and later",
        ]

    asyncio.run(test())


def test_refused_connections_are_counted_but_not_all_logged(caplog):
    async def test():
        async with node("a", limits=msgspec.structs.replace(QUICK, complaints_a_minute=2)) as a:
            for _ in range(6):
                hand = await Hand.to(a)
                hand.writer.write(b"GET / HTTP/1.1\r\n\r\n")
                await hand.last_words()
            await until(lambda: a.links.refused == 6)
            assert sum("connection from" in line for line in caplog.messages) == 2

    run(test())


def test_what_a_stranger_says_stays_on_its_line(caplog):
    async def test():
        async with node("a") as a:
            hand = await Hand.to(a)
            hand.say(Refuse("bad\n2026-01-01 INFO a: all is well\x1b[2J" + "x" * 2000))
            await hand.last_words()
            await until(lambda: a.links.refused == 1)
            (line,) = [line for line in caplog.messages if "connection from" in line]
            assert line.isprintable()
            assert len(line) < 500

    run(test())
    assert sanitize("ção\r\n") == "ção??"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 7702)"), "Connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ssl.SSLError(1, "[SSL] went wrong"), "TLS: "),
        (OSError("Multiple exceptions: …"), "Multiple exceptions: …"),
    ],
)
def test_reasons_are_the_systems_words(error, words):
    assert reason_of(error).startswith(words)


def test_tls_handshakes_count_as_connections(caplog):
    """Connections that never begin TLS take places up to the limit, for limited time, and then nodes link again."""

    async def test():
        caplog.set_level(logging.INFO)
        limits = msgspec.structs.replace(QUICK, connections=3)
        async with node("a", tls=TLS, limits=limits) as a:
            mute = [await asyncio.open_connection(a.address.host, a.address.port) for _ in range(5)]
            await until(lambda: a.links.refused >= 2)
            assert a.links.open == 3
            assert "the limit is 3" in caplog.text
            async with node("b", tls=TLS, peers=[str(a.address)]):
                await a.wait_for_links("b")
            for _, writer in mute:
                writer.close()

    run(test())
