"""Targets, tables, the page and the command of the benchmark of the service."""

import pytest

from benchmarks import harness, service
from benchmarks.harness import Machine, Target, judge, make_tables, markdown
from benchmarks.service import SUBJECT
from benchmarks.service.brokers import SETTINGS
from benchmarks.service.report import Away, Disk, Filtered, Handover, Publishing, Restart
from benchmarks.service.workload import PARTS, full_plan, quick_plan

RECORDS = [
    Machine("A processor", 2, 8.0, "Linux x86_64", "3.11.2", {"nats-server": "2.10"}),
    Disk(1.0, 4.0),
    Publishing("recado", "default", 16, 8, 200, 120_000, 10.0, 8.0, 15.0),
    Publishing("nats", "sync always", 16, 8, 200, 60_000, 10.0, 9.0, 19.0),
    Publishing("mosquitto", "safest", 16, 8, 200, note="not installed"),
    Filtered("recado", "default", 100, 10_000, 20_000, 200_000, 200_000, 10.0, 60_000_000),
    Filtered("nats", "default", 100, 10_000, 5_000, 50_000, 49_990, 10.0, 150_000_000),
    Away("recado", "default", 5_000, 5_000, 1.0, 5_000, 0, 0, 0.5),
    Away("mosquitto", "default", 5_000, 5_000, 1.0, 1_000, 0, 0, 0.1, "as it comes"),
    Handover("WebSocket", 50, 1_000, 12_000, 12_000, 0, 0, 20.0, 90.0, 300.0),
    Handover("SIP/RUDP", 50, 1_000, note="failed: it did not start"),
    Restart(10_000, 10_000, 1.9, 2.4),
]


def test_targets_say_what_is_met():
    found = {target.name: (target.measured, target.met) for target in judge(SUBJECT, RECORDS)}
    assert found == {
        "durable acknowledgements/s, 16 publishers": ("12,000", True),
        "p99 of their latency, 16 publishers": ("15 ms", True),
        "useful notifications/s against nats, default": ("4.00 x", True),
        "filtered delivery: lost": ("0", True),
        "5,000 while away: lost": ("0", True),
        "50 hand-overs, WebSocket: lost": ("0", True),
        "killed with 10,000 notifications: lost": ("0", True),
        "hand-over, WebSocket: p95 of the time without delivery": ("90 ms", True),
        "accepting again with 10,000 notifications and subscriptions": ("1.9 s", True),
    }


def test_targets_without_figures_are_not_measured():
    assert [target.met for target in judge(SUBJECT, RECORDS[:2])] == [None, None, None]


def test_targets_that_are_missed():
    slow = [
        Publishing("recado", "default", 16, 8, 200, 50_000, 10.0, 8.0, 25.0),
        Filtered("recado", "default", 100, 10_000, 2_000, 20_000, 19_999, 10.0, 60_000_000),
        RECORDS[6],
        Handover("WebSocket", 50, 1_000, 12_000, 11_999, 0, 0, 20.0, 900.0, 3000.0),
    ]
    assert not any(target.met for target in judge(SUBJECT, slow))


def test_tables_have_ratios_and_notes():
    publishing, filtered, away, handover, restart = make_tables(SUBJECT, RECORDS)
    assert publishing.rows[1] == ("nats", "sync always", "16", "8", "6,000", "9", "19", "2.00")
    assert publishing.rows[2][4] == "not installed"
    assert filtered.rows[1][2:] == ("4,999", "500", "10", "150", "3,001", "4.00")
    assert "10,000 interests on 100 connections" in filtered.title
    assert away.rows[1][4] == "4,000"
    assert handover.rows[1][3] == "failed: it did not start"
    assert restart.rows == [("10,000", "10,000", "1.90", "2.40", "0")]
    for grid in make_tables(SUBJECT, RECORDS):
        assert {len(row) for row in grid.rows} == {len(grid.heads)}


def test_the_page():
    page = markdown(SUBJECT, [*RECORDS, Target("t", "1", "2", True)], "python -m benchmarks run service")
    assert page.startswith(
        "# The service, measured\n\n```\npython -m benchmarks run service\n```\n\nA processor, 2 cores, 8 GB"
    )
    assert "fsync takes 1.00 ms here" in page
    assert "| mosquitto | default | 5,000 | 5,000 | 4,000 |" in page


def test_plans():
    assert full_plan().moves == 1_000
    assert full_plan().away == (5_000, 100_000)
    assert {case.part for case in SUBJECT.select(True, ("away",))} == {"", "away"}
    assert {case.part for case in SUBJECT.select(True)} == {"", *PARTS}
    assert quick_plan().away == (5_000,)


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr(service, "missing", lambda setting: f"not installed: {setting.system}")
    monkeypatch.setattr(
        service, "restart", lambda folder, stored: Restart(stored, stored, note="not installed: recado")
    )


def test_a_run_goes_on_without_brokers(nothing_installed):
    said = []
    records = list(harness.run(SUBJECT, SUBJECT.select(True), said.append))
    assert [type(record) for record in records[:2]] == [Machine, Disk]
    rows = [record for record in records[2:] if not isinstance(record, Target)]
    assert len(rows) + 1 == len(said) >= 4 * len(SETTINGS)
    assert all(record.note.startswith("not installed: ") for record in rows)
    assert {target.met for target in records if isinstance(target, Target)} == {None}


def test_a_row_that_fails_says_so(monkeypatch):
    monkeypatch.setattr(service, "missing", lambda setting: "")
    monkeypatch.setattr("benchmarks.service.brokers._program", lambda system: "/bin/false")
    monkeypatch.setattr(service, "SETTINGS", SETTINGS[1:2])
    records = harness.run(SUBJECT, SUBJECT.select(True, ("filtered",)), print)
    [row] = [record for record in records if isinstance(record, Filtered)]
    assert row.note == "failed: BrokerError: false did not start: it said nothing"
