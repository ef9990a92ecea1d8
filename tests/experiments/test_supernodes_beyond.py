"""The studies beyond the super-node document, in small: both sides run, and each setting does what it is for."""

from experiments.supernodes import beyond


def both(rows):
    plain, other = rows
    assert plain["setting"] == "plain"
    assert other["setting"] != "plain"
    return plain, other


def test_leaving():
    plain, graceful = both(beyond.study_leaving(families=3, size=4))
    assert plain["left"] == graceful["left"] == 3
    assert graceful["missed_share"] < 0.05 < plain["missed_share"]
    assert graceful["gap_seconds"] < plain["gap_seconds"] / 5


def test_order():
    rows = beyond.study_order(count=50, events=60, deaths=15)
    for plain, ordered in (rows[:2], rows[2:]):
        assert plain["out_of_order"] > 0 == ordered["out_of_order"]
        assert ordered["delivered_share"] >= plain["delivered_share"] - 0.01


def test_large():
    plain, large = both(beyond.study_large(sizes=(60,), most=4))
    assert plain["reached_share"] == large["reached_share"] == 1
    assert large["last_delay_seconds"] < plain["last_delay_seconds"] / 3
    assert large["keepalive_most_bytes_per_second"] < plain["keepalive_most_bytes_per_second"]


def test_covering():
    rows = beyond.study_covering(count=60, redundancies=(0.2,), seconds=200.0)
    (plain, same), (some, less), (more, fewer) = both(rows[:2]), both(rows[2:4]), both(rows[4:])
    assert plain["super_share"] == same["super_share"]
    assert less["super_share"] < some["super_share"]
    assert fewer["super_share"] < more["super_share"] / 2


def test_load():
    plain, fair = both(beyond.study_fair(count=80, seconds=120.0))
    assert fair["ratio"] < plain["ratio"]
    plain, limit = both(beyond.study_limit(count=80, most=20.0, seconds=200.0))
    assert limit["super_nodes"] < plain["super_nodes"]


def test_guard():
    plain, guarded = both(beyond.study_guard(count=20, seconds=30.0))
    assert guarded["victim_bytes_per_second"] < plain["victim_bytes_per_second"] / 5
    assert guarded["deliveries"] == plain["deliveries"]
