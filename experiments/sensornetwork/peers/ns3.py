"""AODV of RFC 3561 in ns-3: a program for it, which is compiled when it is needed, and what it prints.

Debian has it as ``ns3`` and ``libns3-dev``; linking needs ``libgsl-dev``, which these do not ask for.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from experiments.sensornetwork.peers.scene import Count, Scene
from recado.protocols.sensors import SensorSettings

SOURCE = Path(__file__).with_name("aodv.cc")
MODULES = [f"ns3-{name}" for name in ("core", "network", "internet", "mobility", "wifi", "aodv")]
PACKAGES = "ns3 libns3-dev libgsl-dev g++ pkg-config"
TIMEOUT_SECONDS = 900
LONG = 1e5
"""Seconds: longer than any run, so that routes in use do not expire. Reverse routes that nobody uses do."""

SETTINGS = SensorSettings(
    aodv="rfc3561", route_expiry=True, active_route_seconds=LONG, my_route_seconds=LONG, hello_seconds=0.0
)
"""What the program does, in Recado's settings."""


def find_ns3() -> str | None:
    """What compiles programs for it; None if anything that this needs is not installed."""
    compiler, config = shutil.which("g++"), shutil.which("pkg-config")
    if compiler is None or config is None or not any(Path("/usr/lib").glob("**/libgsl.so")):
        return None
    command = [config, "--exists", *MODULES]
    known = subprocess.run(command, capture_output=True, timeout=60, check=False)  # noqa: S603  # a program of the system
    return compiler if known.returncode == 0 else None


def build(folder: Path) -> Path:
    """The compiled program; it takes half a minute."""
    compiler, program = find_ns3(), folder / "aodv"
    assert compiler is not None
    flags = _run(["pkg-config", "--cflags", "--libs", *MODULES]).split()
    _run([compiler, "-std=c++17", "-O1", str(SOURCE), "-o", str(program), *flags])
    return program


def run_aodv(scene: Scene, program: Path, seed: int = 1) -> Count:
    lines = [f"{seed} {scene.end}", f"{len(scene.places)}"]
    lines += [f"{x} {y}" for x, y in scene.places]
    lines.append(f"{len(scene.sends)}")
    lines += [f"{time} {src} {dst}" for time, src, dst in scene.sends]
    return read_counts(_run([str(program)], "\n".join(lines) + "\n"))


def read_counts(text: str) -> Count:
    transmissions: dict[str, int] = {}
    hops: tuple[int, ...] = ()
    for line in text.splitlines():
        name, *numbers = line.split()
        if name == "hops":
            hops = tuple(map(int, numbers))
        else:
            transmissions[name] = int(numbers[0])
    return Count("ns-3", transmissions, len(hops), hops)


def _run(command: list[str], text: str = "") -> str:
    done = subprocess.run(  # noqa: S603  # programs of the system, and what they made
        command, input=text, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-2000:]}")
    return done.stdout
