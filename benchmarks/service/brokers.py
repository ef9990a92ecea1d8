"""The brokers, each a real process on loopback with a folder of its own.

Every broker is shown as it comes (*default*) and as safe as it can be set. What the settings mean:

- nats, *default*: an acknowledged message is written, and synced every two minutes. *sync always*: synced before the
  acknowledgement, as Recado does it.
- mosquitto, *default*: persistence is on, and the database is written every half hour and at the end; at most 1,000
  messages are kept for a client who is away. *safest*: the database is written after every change, and the queue has no
  bound; the acknowledgement still does not wait for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec

from recado.errors import RecadoError
from recado.overlay.launch import free_address

START_SECONDS = 60.0
STOP_SECONDS = 30.0


class BrokerError(RecadoError):
    """A broker that cannot be started, or did not do what it should."""


class Setting(msgspec.Struct, frozen=True):
    """A broker and how it is told to keep things."""

    system: str
    name: str


class Running(msgspec.Struct, frozen=True):
    """A broker that accepts connections."""

    setting: Setting
    port: int
    pid: int
    sip_port: int

    @property
    def row(self) -> tuple[str, str]:
        """How a row about it begins."""
        return self.setting.system, self.setting.name


RECADO, RECADO_WITH_SIP = Setting("recado", "default"), Setting("recado", "with SIP")
NATS_SYNCED = Setting("nats", "sync always")
SETTINGS = (
    RECADO,
    NATS_SYNCED,
    Setting("nats", "default"),
    Setting("mosquitto", "safest"),
    Setting("mosquitto", "default"),
)
PROGRAMS = {"nats": "nats-server", "mosquitto": "mosquitto"}
CLIENTS = {"nats": ("nats", "nats-py"), "mosquitto": ("paho.mqtt", "paho-mqtt")}


def missing(setting: Setting) -> str:
    """What has to be installed before this broker can take part; empty if nothing."""
    from importlib.util import find_spec  # only here

    if setting.system not in PROGRAMS:
        return ""
    module, package = CLIENTS[setting.system]
    if _program(setting.system) is None:
        return f"not installed: {PROGRAMS[setting.system]} (apt-get install {PROGRAMS[setting.system]})"
    if find_spec(module.split(".", maxsplit=1)[0]) is None:
        return f"not installed: pip install {package}"
    if setting == NATS_SYNCED and (known := version("nats")) and _numbers(known) < (2, 10):
        return f"nats-server {known} cannot be told to; 2.10 and later can"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def version(system: str) -> str:
    """The version that the broker's program tells."""
    program = _program(system)
    if program is None:
        return ""
    flag = "-h" if system == "mosquitto" else "--version"
    done = subprocess.run([program, flag], capture_output=True, text=True, check=False)
    first = (done.stdout or done.stderr).strip().splitlines()[:1]
    return first[0].split()[-1].removeprefix("v") if first else ""


def _program(system: str) -> str | None:
    """On the path, or where Debian puts daemons, which users often have not on theirs."""
    name = PROGRAMS[system]
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


@contextmanager
def broker(setting: Setting, folder: Path) -> Iterator[Running]:
    """A broker that accepts connections; it is stopped at the end, and what it said is in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        ports = [free_address("127.0.0.1:0", held).port for _ in range(3)]
    command = _COMMANDS[setting.system](setting, folder, ports)
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
        try:
            _wait(process, ports[0], folder)
            yield Running(setting, ports[0], process.pid, ports[1])
        finally:
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and after a while SIGKILL."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    said = (folder / "output").read_text(errors="replace").strip().splitlines()[-5:]
    raise BrokerError(f"{Path(str(process.args[0])).name} did not start: {' / '.join(said) or 'it said nothing'}")  # type: ignore[index]  # the arguments are a list


def _recado(setting: Setting, folder: Path, ports: list[int]) -> list[str]:
    lines = [f'data = "{folder / "data"}"', "[http]", f"port = {ports[0]}"]
    if setting == RECADO_WITH_SIP:
        lines += ["[sip]", 'registrar = "embedded"', f"port = {ports[1]}", f"rudp_port = {ports[2]}"]
    lines += ["[logging]", 'level = "warning"']
    (folder / "recado.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [
        sys.executable,
        "-c",
        "from recado.cli.app import main; raise SystemExit(main())",
        "serve",
        "--config",
        str(folder / "recado.toml"),
    ]


def _nats(setting: Setting, folder: Path, ports: list[int]) -> list[str]:
    sync = "sync_interval: always" if setting == NATS_SYNCED else ""
    text = f'listen: "127.0.0.1:{ports[0]}"\njetstream {{ store_dir: "{folder / "data"}"\n{sync} }}\n'
    (folder / "nats.conf").write_text(text, encoding="utf-8")
    return [str(_program("nats")), "-c", str(folder / "nats.conf")]


def _mosquitto(setting: Setting, folder: Path, ports: list[int]) -> list[str]:
    (folder / "data").mkdir(exist_ok=True)
    lines = [
        f"listener {ports[0]} 127.0.0.1",
        "allow_anonymous true",
        "persistence true",
        f"persistence_location {folder / 'data'}/",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        lines.append("user root")  # it would become another user, who may not write here
    if setting.name == "safest":
        lines += ["autosave_interval 1", "autosave_on_changes true", "max_queued_messages 0"]
    (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(_program("mosquitto")), "-c", str(folder / "mosquitto.conf")]


_COMMANDS = {"recado": _recado, "nats": _nats, "mosquitto": _mosquitto}
