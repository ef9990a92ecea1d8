"""The benchmark of the service without brokers: what is published, who wants it, how it is counted and judged."""

import asyncio
import socket

import pytest

from benchmarks.service.brokers import SETTINGS, BrokerError, Setting, broker, missing
from benchmarks.service.handover import Gaps
from benchmarks.service.loads import Arrivals, Tally, bytes_received, publish_many
from benchmarks.service.workload import (
    CLASSES,
    EVENT_BYTES,
    SAME,
    class_of,
    class_read,
    event,
    expression,
    interests,
    number_of,
    read,
)
from benchmarks.timing import percentiles
from recado.filters.evaluate import matches
from recado.filters.syntax import parse_filter
from recado.model.codec import read_event

NUMBERS = (0, 1, 999, 1_000, 123_456, 99_999_999)


@pytest.mark.parametrize("number", NUMBERS)
def test_an_event_has_its_size_its_number_and_its_class(number):
    raw = event(number)
    assert len(raw) == EVENT_BYTES
    assert number_of(raw) == number
    assert class_read(read(raw)) == class_of(number)
    assert read_event(raw).id == f"e-{number}"


def test_an_interest_is_in_one_of_a_thousand_events():
    wanted = class_of(17)
    filter = parse_filter(expression(wanted))
    found = [number for number in range(CLASSES) if matches(filter, read_event(event(number)))]
    assert found == [17]


def test_every_event_has_ten_who_want_it_each_on_another_connection():
    of_connection = [interests(number, 100, 10_000) for number in range(100)]
    assert {len(classes) for classes in of_connection} == {100}
    for kind in (0, 1, 500, 999):
        assert sum(classes.count(kind) for classes in of_connection) == SAME
        assert max(classes.count(kind) for classes in of_connection) == 1


class Slow:
    def __init__(self):
        self.numbers, self.now, self.most = [], 0, 0

    async def publish(self, number):
        self.numbers.append(number)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.001)
        self.now -= 1


def test_publishers_have_so_many_in_flight_and_keep_their_order():
    publishers = [Slow(), Slow(), Slow()]
    latencies = asyncio.run(publish_many(publishers, 4, 100, until=lambda number: number < 160))
    assert len(latencies) == 60
    assert [publisher.most for publisher in publishers] == [4, 4, 4]
    assert publishers[1].numbers == list(range(101, 160, 3))


def test_arrivals_count_what_is_twice_and_out_of_order():
    arrivals = Arrivals(4, publishers=2)
    for number in (0, 3, 2, 1, 2):
        arrivals.heard(number)
    assert (len(arrivals.seen), arrivals.duplicated, arrivals.out_of_order) == (4, 1, 1)


def test_a_gap_is_from_a_move_to_the_first_that_comes_to_the_new_address(monkeypatch):
    clock = iter((0.0, 1.0, 1.25, 1.5, 2.0, 9.0))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    there = iter((False, True))

    async def scenario():
        gaps = Gaps()
        gaps.heard(1)
        gaps.moving(lambda: next(there))
        gaps.heard(2)  # still at the old one
        gaps.heard(3)
        await gaps.delivered()
        gaps.heard(4)
        return gaps.gaps

    assert asyncio.run(scenario()) == [0.75]


def test_a_tally_knows_when_nothing_comes_any_more(monkeypatch):
    async def scenario():
        tally = Tally()
        tally.published = 2
        tally.heard(1)
        assert (tally.outstanding, tally.quiet) == (1, False)
        monkeypatch.setattr("benchmarks.service.loads.QUIET_SECONDS", 0.0)
        await tally.all_there()
        assert tally.quiet
        tally.heard(2)
        assert not tally.quiet

    asyncio.run(scenario())


def test_percentiles():
    assert percentiles(range(100), 50, 99, 100) == [50, 99, 99]
    assert percentiles([7.0], 50, 99) == [7.0, 7.0]


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="the kernel does not tell")
def test_bytes_are_counted_by_the_kernel():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            peer, _ = server.accept()
            with peer:
                peer.sendall(b"x" * 1_000)
                assert len(client.recv(1_000, socket.MSG_WAITALL)) == 1_000
                assert bytes_received(port) == 1_000
                assert bytes_received(port + 1) == 0


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert missing(Setting("nats", "default")) == "not installed: nats-server (apt-get install nats-server)"
    assert missing(SETTINGS[0]) == ""


def test_a_broker_that_does_not_start_tells_why(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.service.brokers._program", lambda system: "/bin/false")
    with pytest.raises(BrokerError, match="false did not start: it said nothing"), broker(SETTINGS[1], tmp_path / "x"):
        pass
