"""Radio: a shared medium on which a transmission is heard by whoever is near enough, and how strongly.

Two channels: ``IdealRadio``, without loss and collision, and ``CsmaRadio``, which listens before it speaks and collides
as IEEE 802.11 does. Around them: placements, movement, energy, duty cycles.
"""

from recado.sim.radio.channel import Radio
from recado.sim.radio.csma import Csma, CsmaRadio
from recado.sim.radio.energy import CC2420, CC2420_LISTENING, RADIOS, Batteries, EnergyMeter, RadioPower, draw_batteries
from recado.sim.radio.ideal import BROADCAST_SECONDS, JITTER_SECONDS, UNICAST_SECONDS, IdealRadio
from recado.sim.radio.movement import RandomWaypoint
from recado.sim.radio.placement import (
    clusters,
    connected_scatter,
    grid_places,
    hop_counts,
    line_places,
    radio_topology,
    scatter,
)
from recado.sim.radio.signal import (
    ANTENNA_METRES,
    CROSSOVER_METRES,
    NEAREST_METRES,
    POWER_WATTS,
    RANGE_METRES,
    SENSE_METRES,
    WAVELENGTH_METRES,
    dbm,
    received_watts,
)
from recado.sim.radio.sleep import ALWAYS_AWAKE, Sleep, random_phases

__all__ = [
    "ALWAYS_AWAKE", "ANTENNA_METRES", "BROADCAST_SECONDS", "CC2420", "CC2420_LISTENING", "CROSSOVER_METRES",
    "JITTER_SECONDS", "NEAREST_METRES", "POWER_WATTS", "RADIOS", "RANGE_METRES", "SENSE_METRES", "UNICAST_SECONDS",
    "WAVELENGTH_METRES", "Batteries", "Csma", "CsmaRadio", "EnergyMeter", "IdealRadio", "Radio", "RadioPower",
    "RandomWaypoint", "Sleep", "clusters", "connected_scatter", "dbm", "draw_batteries", "grid_places", "hop_counts",
    "line_places", "radio_topology", "random_phases", "received_watts", "scatter",
]  # fmt: skip
