"""Accounts of matching time, by a clock that the test sets."""

from __future__ import annotations

from itertools import count

import pytest

from recado.matching.undecided import Undecided
from recado.server.metrics import Metrics
from recado.server.verification import Budgets, Case, Verifier


def made(**other):
    return Budgets(**{"share": 0.1, "burst_seconds": 1.0, "all_share": 0.5, **other})


def test_a_burst_is_allowed_and_drains():
    budgets = made()
    budgets.charge("ana", 0.9, 100.0)
    assert not budgets.is_over("ana", 100.0)
    budgets.charge("ana", 0.3, 100.0)
    assert budgets.is_over("ana", 100.0)
    assert budgets.over(100.0) == ["ana"]
    assert budgets.is_over("ana", 106.0)  # 0.6 is below the burst, but not by half
    assert not budgets.is_over("ana", 108.0)
    assert budgets.over(108.0) == []
    assert not budgets.is_over("ben", 100.0)


def test_the_share_is_what_can_be_used_for_ever():
    budgets, used, now = made(), 0.0, 0.0
    for _ in range(10_000):
        now += 0.02
        if not budgets.is_over("ana", now):
            budgets.charge("ana", 0.01, now)
            used += 0.01
    assert used == pytest.approx(now * 0.1 + 1.0, rel=0.05)


def test_many_users_have_no_more_than_all_are_given():
    budgets, used, now = made(), 0.0, 0.0
    names = [f"user-{number}" for number in range(50)]
    for _ in range(2_000):
        now += 0.02
        for name in names:
            if not budgets.is_over(name, now):
                budgets.charge(name, 0.01, now)
                used += 0.01
    bursts = 1.0 * 0.5 / 0.1
    assert used <= now * 0.5 + bursts + 50 * 0.01
    assert used >= now * 0.25


def test_one_more_user_makes_room_for_nobody_who_uses_nothing():
    budgets = made()
    budgets.charge("ana", 0.9, 0.0)
    for number in range(20):
        budgets.charge(f"user-{number}", 0.001, 0.0)
    assert budgets.is_over("ana", 0.0)  # each has a quarter of its share now
    assert not budgets.is_over("user-0", 0.0)


def test_what_was_evaluated_before_there_were_kernels_is_not_paid_for():
    """Events wait, and every step takes a second; at the end of the first filter the kernels come."""
    ticks, waiting = count(), -1.0

    def evaluate(length, work):
        nonlocal waiting
        yield from range(length)
        waiting = 9.0
        return True

    verifier = Verifier(
        made(burst_seconds=10.0),
        Metrics(),
        owner=lambda id: "ana",
        waiting=lambda: waiting,
        now=lambda: 0.0,
        timer=lambda: float(next(ticks)),
    )
    verifier.begin()
    case = Case([Undecided(0, [["1"], ["2"], ["3"]], [24, 1, 100], evaluate)])
    assert verifier.decide_quickly(case)
    verifier.close()
    assert (case.verdict.matched, case.verdict.refused) == (["1", "2"], ["3"])  # what comes after that is paid for
