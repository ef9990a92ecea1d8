"""How strong a signal is at a distance: two-ray ground, with the constants of ns-2.

In free space it falls with the square of the distance, beyond the crossover distance with the fourth power, since the
ray that the ground reflects weakens the direct one.
"""

from __future__ import annotations

import math

POWER_WATTS = 0.28183815
ANTENNA_METRES = 1.5
WAVELENGTH_METRES = 3e8 / 914e6  # ns-2 rounds the speed of light
CROSSOVER_METRES = 4 * math.pi * ANTENNA_METRES**2 / WAVELENGTH_METRES

RANGE_METRES = 250.0
SENSE_METRES = 550.0
"""So far a transmission can be told from silence; it can be understood up to ``RANGE_METRES``."""
NEAREST_METRES = 1e-3  # two nodes in one place would otherwise hear each other without limit


def received_watts(metres: float) -> float:
    """What arrives of ``POWER_WATTS`` at a distance."""
    metres = max(metres, NEAREST_METRES)
    if metres < CROSSOVER_METRES:
        return POWER_WATTS * (WAVELENGTH_METRES / (4 * math.pi * metres)) ** 2
    return POWER_WATTS * ANTENNA_METRES**4 / metres**4


def dbm(watts: float) -> float:
    return 10 * math.log10(watts * 1000)
