"""Settings: the specification's defaults, profiles, and what is refused."""

import math

import msgspec
import pytest

from recado.protocols.pubsub import ProtocolError
from recado.protocols.registry import find_protocol
from recado.protocols.sensors import SensorSettings, SettingsError


def test_defaults_are_those_of_the_specification():
    settings = SensorSettings()
    pampa, aodv = settings.pampa_parameters(), settings.aodv_parameters()
    assert (pampa.n_copies, pampa.hold_mode, pampa.hold_factor, pampa.hold_seconds) == (3, "linear", 3e6, 0.1)
    assert (settings.dbc, settings.query_hops, settings.hop_seconds) == (2, 2, 0.15)
    assert settings.wait_seconds == pytest.approx(0.45)
    assert (settings.pace_seconds, settings.pace_mode, settings.grouping) == (1.0, "all", True)
    assert (aodv.diameter, aodv.rreq_retries, aodv.first_last_hops) == (30, 3, 255)
    assert not settings.route_expiry
    assert not settings.repeats_requests
    beyond = (settings.shuffle, settings.covering, settings.lease_seconds, settings.refresh_seconds)
    assert not any(beyond)


def test_a_profile_is_chosen_and_parts_of_it_replaced():
    settings = SensorSettings(pampa="sparse", aodv="rfc3561", n_copies=4, diameter=20)
    assert (settings.pampa_parameters().n_copies, settings.pampa_parameters().hold_mode) == (4, "db")
    assert (settings.aodv_parameters().diameter, settings.aodv_parameters().ttl_start) == (20, 1)
    other = msgspec.structs.replace(settings, pampa="prototype", n_copies=None)
    assert other.pampa_parameters().n_copies == 3


def test_requests_are_repeated_where_the_specification_says():
    on = [SensorSettings(aodv="rfc3561"), SensorSettings(route_expiry=True), SensorSettings(rreq_retry="on")]
    assert all(settings.repeats_requests for settings in on)
    assert not SensorSettings(aodv="rfc3561", rreq_retry="off").repeats_requests


@pytest.mark.parametrize(
    "options",
    [
        {"n_copies": 0},
        {"dbc": 0},
        {"q_ttl": 0},
        {"q_ttl": 256},
        {"pace_seconds": -1.0},
        {"pace_seconds": math.nan},
        {"p_shuffle": 1.5},
        {"hop_seconds": 0.12},
        {"hold_seconds": 0.2},
        {"lease_seconds": 10.0, "refresh_seconds": 10.0},
        {"system": "gossip"},
        {"evict": "all"},
        {"remembered": 0},
        {"buffer_packets": 0},
    ],
)
def test_what_makes_no_sense_is_refused(options):
    with pytest.raises(SettingsError):
        SensorSettings(**options)


def test_settings_come_from_files():
    protocol = find_protocol("sensor-network")
    configured = protocol.configure({"system": "publication-flooding", "pampa": "sparse", "capacity": 10})
    assert configured.settings == SensorSettings(system="publication-flooding", pampa="sparse", capacity=10)
    assert configured.name == "sensor-network system=publication-flooding pampa=sparse"
    with pytest.raises(ProtocolError, match="hop_seconds"):
        protocol.configure({"hop_seconds": 0.01})
