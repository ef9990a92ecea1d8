"""What strangers do fills no log."""

import asyncio
import logging
from contextlib import suppress

from net.bad_link import until
from recado.net.sip import StreamLimits, Streams
from recado.net.sparing_log import SparingLog


def test_a_log_for_lines_that_strangers_cause_is_bounded(caplog):
    now = [0.0]
    sparing = SparingLog(logging.getLogger("recado.sip"), most=3, seconds=60.0, clock=lambda: now[0])
    with caplog.at_level(logging.INFO, "recado.sip"):
        for _ in range(1_000):
            sparing.info("a caller was refused", extra={"reason": "x"})
        assert len(caplog.records) == 3
        now[0] = 61.0
        sparing.info("a caller was refused", extra={"reason": "y"})
    assert [record.getMessage() for record in caplog.records[3:]] == [
        "997 more lines such as this one were left out: a caller was refused",
        "a caller was refused",
    ]
    assert caplog.records[-1].reason == "y"


def test_connections_that_are_refused_or_speak_no_sip_take_a_bounded_number_of_lines(caplog, monkeypatch):
    """192 of 256 connections of one host were refused with a line each."""
    monkeypatch.setattr("recado.net.sip.sparing", SparingLog(logging.getLogger("recado.sip"), most=5))

    opened = []

    async def check():
        streams = Streams(StreamLimits(connections_per_host=4), lambda data, peer: None, lambda peer: None)
        await streams.listen("127.0.0.1", 0)
        port = streams.listener.sockets[0].getsockname()[1]
        for number in range(60):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"x" * 70_000 if number % 2 else b"\r\n")
            opened.append(writer)
        await until(lambda: len(streams) <= 4)
        for writer in opened:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        await streams.close()

    with caplog.at_level(logging.INFO, "recado.sip"):
        asyncio.run(check())
    assert any("was refused" in record.getMessage() for record in caplog.records)
    assert len(caplog.records) <= 5
