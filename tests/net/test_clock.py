"""A clock that does not go back, whatever is done to that of the system."""

import pytest

from recado.net.clock import SteadyClock


class System:
    def __init__(self):
        self.wall, self.monotonic = 10_000.0, 5.0
        self.clock = SteadyClock(lambda: self.wall, lambda: self.monotonic)

    def pass_(self, seconds, set_by=0.0):
        self.wall += seconds + set_by
        self.monotonic += seconds
        return self.clock()


def test_it_shows_the_time_of_the_system():
    system = System()
    assert [system.pass_(1) for _ in range(3)] == [10_001, 10_002, 10_003]


def test_it_follows_a_clock_that_is_set_forwards():
    system = System()
    assert system.pass_(1, set_by=3_600) == 13_601
    assert system.pass_(1) == 13_602


def test_it_goes_on_slower_when_the_clock_is_set_back_and_meets_it_again():
    system = System()
    assert system.pass_(0, set_by=-7_200) == 10_000
    assert system.pass_(10) == 10_009
    assert system.pass_(20) == 10_027
    assert system.pass_(71_870) == pytest.approx(74_710)
    assert system.pass_(200) == system.wall == 74_900
    assert system.pass_(10) == 74_910


def test_it_goes_on_from_where_another_one_was():
    system = System()
    system.clock.start_from(20_000)
    assert system.pass_(10) == 20_009
    system.clock.start_from(5)
    assert system.pass_(10) == 20_018
