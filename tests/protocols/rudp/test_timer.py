"""Vector 1, and the detection times of the mobility document's section 5.3."""

import pytest

from recado.protocols.rudp import PROFILES, RudpError, RudpSettings, profile
from recado.protocols.rudp.connection import RttEstimator

SAMPLES = [
    # rtt, srtt, rttvar, unclamped rto
    (0.100, 0.0125, 0.5875, 2.3625),
    (0.120, 0.025938, 0.4675, 1.895938),
    (0.080, 0.032695, 0.364141, 1.489258),
    (0.400, 0.078608, 0.364932, 1.538335),
]


def test_the_estimator_follows_the_vector():
    estimator = RttEstimator(profile("classic"))
    assert (estimator.srtt, estimator.rttvar, estimator.rto) == (0, 0.75, 3.0)
    for rtt, srtt, rttvar, rto in SAMPLES:
        estimator.sample(rtt)
        assert (estimator.srtt, estimator.rttvar, estimator.unclamped) == pytest.approx((srtt, rttvar, rto), abs=1e-6)
        assert estimator.rto == max(2.0, estimator.unclamped)


def test_the_timer_stays_within_its_bounds():
    estimator = RttEstimator(profile("lab"))
    for _ in range(100):
        estimator.sample(0.0)
    assert estimator.rto == 0.05
    estimator.sample(1000.0)
    assert estimator.rto == 2.0
    assert estimator.wait_seconds(5) == 2.0


@pytest.mark.parametrize(
    ("name", "rto", "seconds"),
    [("classic", None, 45), ("classic", 2.0, 30), ("lab", None, 4.1), ("fast", None, 13.5), ("fast", 0.2, 11.0)],
)
def test_detection_times(name, rto, seconds):
    assert profile(name).detection_seconds(rto) == pytest.approx(seconds)


def test_the_profiles():
    assert list(PROFILES) == ["classic", "lab", "fast"]
    assert profile("classic") == RudpSettings()
    assert profile("classic").window == profile("lab").window == 1
    with pytest.raises(RudpError, match="no RUDP profile 'quick'; the profiles are classic, lab, fast"):
        profile("quick")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"backoff": 1.0}, "backoff is 1.0; it has to be more than 1"),
        ({"backoff": float("nan")}, "backoff is nan"),
        ({"window": 0}, "window is 0; it has to be between 1 and 65,536"),
        ({"window": 2000}, r"window is 2000; it has to be at most dedup \(1024\)"),
        ({"rto_init_seconds": 1.0}, "rto_init_seconds is 1.0; it has to lie between"),
        ({"rto_max_seconds": 0}, "rto_max_seconds is 0; it has to be between"),
        ({"mtu_payload_bytes": 1}, "max_message_bytes is 1,114,112; a message has at most 65,535 fragments"),
        ({"mtu_payload_bytes": 70_000}, "mtu_payload_bytes is 70000"),
    ],
)
def test_settings_that_make_no_sense(wrong, message):
    with pytest.raises(RudpError, match=message):
        RudpSettings(**wrong)
