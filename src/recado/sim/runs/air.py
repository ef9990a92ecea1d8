"""Radio in scenario files: from the part of a setting to a radio, and what was measured on the air.

- ``transmissions`` and ``transmissions.CLASS``: messages handed to the link, by traffic class;
- ``air.*``: on the channel with collisions, frames by kind, receptions lost to collisions, repetitions, messages that
  were given up and that found a queue full;
- ``energy.total``, ``.mean``, ``.max``: joules of a node; ``.transmit``, ``.receive``, ``.idle``, ``.sleep``: of all
  nodes by state; ``.deaths``; ``.first_death`` and ``.half_dead``: when the first node, and half of them, had died.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from recado.protocols.machine import NodeId
from recado.sim.kernel import SimulationError, stream
from recado.sim.network import Place
from recado.sim.radio import (
    ALWAYS_AWAKE,
    Batteries,
    Csma,
    CsmaRadio,
    EnergyMeter,
    IdealRadio,
    Radio,
    RadioPower,
    RandomWaypoint,
    Sleep,
    clusters,
    connected_scatter,
    draw_batteries,
    grid_places,
    line_places,
    random_phases,
    scatter,
)
from recado.sim.radio.channel import ClassOf
from recado.sim.runs.scenario import EnergyPart, RadioPart, ScenarioError, SleepPart


def make_radio(part: RadioPart, nodes: Sequence[NodeId], seed: int, class_of: ClassOf | None = None) -> Radio:
    """The radio of a run, with what goes on beside its messages; each draws from a stream of its own."""
    try:
        places = make_places(part, nodes, seed)
    except SimulationError as error:
        raise ScenarioError(f"{error} - at `$.radio.placement`") from None
    sleep = _make_sleep(part.sleep, nodes, seed)
    rng = stream(seed, "radio")
    radio: Radio
    if part.channel == "ideal":
        radio = IdealRadio(places, rng, part.range, class_of=class_of, sleep=sleep)
    else:
        settings = Csma(
            basic_bits_per_second=part.basic_rate,
            data_bits_per_second=part.data_rate,
            sense_metres=part.sense,
            queue=part.queue,
            arp=part.arp,
            rts=part.rts,
        )
        radio = CsmaRadio(places, rng, part.range, settings, class_of=class_of, sleep=sleep)
    movement, energy = part.movement, part.energy
    if movement.most_speed:
        rngs = {node: stream(seed, "way", str(node)) for node in nodes}
        waypoint = RandomWaypoint(
            places,
            part.side,
            rngs,
            least_speed=min(movement.least_speed, movement.most_speed),
            most_speed=movement.most_speed,
            pause_seconds=movement.pause,
            step_seconds=movement.step,
        )
        radio.add_process(waypoint)
    if energy.measured or energy.battery_joules:
        meter = EnergyMeter(radio, _make_power(energy), sleep)
        if energy.battery_joules:
            rng = stream(seed, "batteries")
            capacities = draw_batteries(nodes, energy.battery_joules, energy.battery_spread, rng)
            radio.add_process(Batteries(meter, nodes, capacities, energy.step))
    return radio


def make_places(part: RadioPart, nodes: Sequence[NodeId], seed: int) -> dict[NodeId, Place]:
    rng = stream(seed, "places")
    match part.placement:
        case "uniform":
            return scatter(nodes, part.side, rng)
        case "connected":
            return connected_scatter(nodes, part.side, rng, part.range)
        case "line":
            return line_places(nodes, part.apart)
        case "grid":
            return grid_places(nodes, part.side)
        case "clusters":
            return clusters(nodes, part.side, part.clusters, part.spread, rng)


def _make_sleep(part: SleepPart, nodes: Sequence[NodeId], seed: int) -> Sleep:
    if part.awake == 1:
        return ALWAYS_AWAKE
    phases = random_phases(nodes, part.period, stream(seed, "phases")) if part.phases == "random" else None
    return Sleep(part.period, part.awake, phases)


def _make_power(part: EnergyPart) -> RadioPower:
    return RadioPower(
        transmit_watts=part.transmit_watts,
        receive_watts=part.receive_watts,
        idle_watts=part.idle_watts,
        sleep_watts=part.sleep_watts,
        bits_per_second=part.bits_per_second,
        overhead_bytes=part.overhead_bytes,
    )


def batteries_of(radio: Radio) -> Batteries | None:
    return next((process for process in radio.processes if isinstance(process, Batteries)), None)


def exhausted(radio: Radio) -> Collection[NodeId]:
    """The nodes whose batteries are empty."""
    batteries = batteries_of(radio)
    return () if batteries is None else batteries.deaths


def measure_air(radio: Radio, now: float) -> dict[str, float]:
    radio.advance(now)
    found: dict[str, float] = {"transmissions": sum(radio.transmissions.values())}
    found |= {f"transmissions.{name}": count for name, count in sorted(radio.transmissions.items())}
    if isinstance(radio, CsmaRadio):
        found |= {f"air.{kind}": count for kind, count in radio.frames.items()}
        found |= {f"air.{name}": getattr(radio, name) for name in ("collisions", "repeats", "failed", "dropped")}
    if isinstance(radio.listener, EnergyMeter):
        found |= _measure_energy(radio, radio.listener, now)
    return found


def _measure_energy(radio: Radio, meter: EnergyMeter, now: float) -> dict[str, float]:
    spent = [meter.spent(node, now) for node in radio.places]
    joules = [one.joules for one in spent]
    found = {
        "energy.total": sum(joules),
        "energy.mean": sum(joules) / len(joules),
        "energy.max": max(joules),
        "energy.transmit": sum(one.transmit_joules for one in spent),
        "energy.receive": sum(one.receive_joules for one in spent),
        "energy.idle": sum(one.idle_joules for one in spent),
        "energy.sleep": sum(one.sleep_joules for one in spent),
    }
    batteries = batteries_of(radio)
    if batteries is not None:
        times = list(batteries.deaths.values())
        found["energy.deaths"] = len(times)
        if times:
            found["energy.first_death"] = times[0]
        if 2 * len(times) >= len(spent):
            found["energy.half_dead"] = times[(len(spent) - 1) // 2]
    return found
