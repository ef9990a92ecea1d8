"""The example that the contract gives runs as it is printed."""

from collections.abc import Sequence
from textwrap import dedent
from typing import Any

from recado.protocols import machine
from recado.protocols.machine import Asked, Received, Send, Started
from recado.sim.kernel import Simulation
from recado.sim.network import UnitDelay
from sim.machines import Recorder


def test_the_example_of_the_contract():
    text = machine.__doc__.partition("::\n")[2].partition("\nWhat a machine")[0]
    found = {**vars(machine), "Sequence": Sequence, "Any": Any}
    exec(compile(dedent(text), "<docstring>", "exec"), found)
    echo = found["Echo"]("b")
    assert echo.handle(Started(("a",)), 0.0, None) == echo.handle(Asked("?"), 0.0, None) == ()
    simulation, other = Simulation(UnitDelay()), Recorder("a")
    simulation.add("a", other)
    simulation.add("b", echo)
    simulation.ask("a", [Send("b", "hello")])
    simulation.run()
    assert other.seen[-1] == (2.0, Received("b", "hello"))
    assert echo.inspect() == {"heard": 1}
