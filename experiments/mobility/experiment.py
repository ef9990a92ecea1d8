"""The experiment: which studies there are, and what the report says before the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.base import Experiment, Figure, Results
from experiments.blocks import Table
from experiments.expected import show
from experiments.mobility.moving import absence, moves
from experiments.mobility.town import Numbers
from experiments.mobility.transport import LOSSES, cost, detection, losses
from experiments.mobility.users import constraints, devices, expiry, restarts
from experiments.mobility.vectors import vectors
from recado.sim.runs.plot import Estimate, Look, Point, Series, draw


def measure(results: Results) -> Numbers:
    return {f"{study}.{name}": value for study, answers in results.studies.items() for name, value in answers.items()}


def tables(results: Results) -> Sequence[tuple[str, Table]]:
    return [
        ("E2: fifty moves, by system", _moves(results)),
        ("E4: packet loss", _losses(results)),
        ("E6: notifications of a day with an event a minute", _constraints(results)),
    ]


def _moves(results: Results) -> Table:
    found = results.studies["moves"]
    columns = ("events", "lost", "duplicated", "reordered", "gap.p50", "gap.p95")
    rows = [
        (name, *(show(found.get(f"{name}.{column}")) for column in columns)) for name in ("MD-ECI", "B0", "B2", "B3")
    ]
    return Table(("system", *columns), tuple(rows), tuple(range(1, len(columns) + 1)))


def _losses(results: Results) -> Table:
    found = results.studies["losses"]
    columns = ("delivered", "resent", "false", "formula")
    rows = [(f"{loss:.0%}", *(show(found[f"{loss:.0%}.{column}"]) for column in columns)) for loss in LOSSES]
    heads = ("loss", "delivered", "resent per message", "false disconnections per message", "the formula")
    return Table(heads, tuple(rows), (1, 2, 3, 4))


def _constraints(results: Results) -> Table:
    found = results.studies["constraints"]
    rows = [
        (when, kind, *(show(found[f"{when}.{kind}.{state}"]) for state in ("connected", "disconnected")))
        for when in ("always", "disconnected")
        for kind in ("frequency", "daily", "absolute")
    ]
    return Table(("when", "constraint", "connected", "disconnected"), tuple(rows), (2, 3))


def _draw_losses(results: Results, path: Path) -> None:
    found = results.studies["losses"]
    lines = []
    for column, label in (("false", "measured"), ("formula", "formula")):
        points = [Point(100 * loss, Estimate(float(found[f"{loss:.0%}.{column}"]), 0.0, 1)) for loss in LOSSES if loss]
        lines.append(Series(label, tuple(points)))
    look = Look(title="", x="packets lost, %", y="false disconnections per message")
    draw(lines, look, [path])


EXPERIMENT = Experiment(
    name="mobility",
    title="Mobility and disconnection: what the document expects, and what is measured",
    introduction=(
        "The mobility document measures nothing. Scenarios (E1 to E12), what is expected of them, and test vectors "
        "were derived from its requirements (5.1) and its implementation (5.2). Here the agent, RUDP and the broker of "
        "the service, the same code as live, run in simulated time: every datagram takes 20 ms. INVITE, 200 and ACK "
        "stand for the whole of SIP. E10 to E12 and vector 12 need SIP itself: the tests have them, with Kamailio and "
        "SIPp, and `python -m benchmarks run service` has the hand-over between real addresses."
    ),
    sweeps=(),
    studies={
        "vectors": vectors,
        "cost": cost,
        "detection": detection,
        "losses": losses,
        "moves": moves,
        "absence": absence,
        "constraints": constraints,
        "devices": devices,
        "expiry": expiry,
        "restarts": restarts,
    },
    measure=measure,
    tables=tables,
    figures=(Figure("losses", "E4: false disconnections, four tries a message", _draw_losses),),
    rooms=("broker",),
)
