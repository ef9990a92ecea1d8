"""Start and stop a scene: one process for the medium and one for each node.

The scene's folder is ``RUNTIME/SCENE`` (``recado.overlay.addresses``). It holds ``scene.json``, as which the scene was
started; ``NAME.radio``, the control sockets, and ``NAME.air``, the sockets of the air; ``state`` and ``logs``.

As a program, ``python -m recado.radio.launch FOLDER NAME…`` imports what nodes need once, and makes a process for each
name by forking. So a hundred nodes start in seconds, and share the memory of what they do not change.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from recado import files
from recado.errors import RecadoError
from recado.overlay.addresses import check_name, overlay_folder, runtime
from recado.overlay.client import ask
from recado.overlay.limits import OverlayError
from recado.radio.client import SceneClient
from recado.radio.medium import run_medium
from recado.radio.node import RadioNode
from recado.radio.scene import MEDIUM, Scene, SceneError

FILE = "scene.json"
SOCKET = ".radio"
PATIENCE_SECONDS = 5.0
START_SECONDS = 60.0

log = logging.getLogger("recado.radio")


def scene_folder(name: str) -> Path:
    """The folder of a scene that runs, or ran; without a name, of the only one."""
    if name:
        folder = runtime() / check_name(name)
        if not (folder / FILE).exists():
            raise SceneError(f"no scene {name!r} was started here; see: recado radio up --help")
        return folder
    found = sorted(path.parent for path in runtime().glob(f"*/{FILE}"))
    if not found:
        raise SceneError("no scene runs here; see: recado radio up --help")
    if len(found) > 1:
        raise SceneError(f"several scenes run here; name one: {', '.join(folder.name for folder in found)}")
    return found[0]


def read_started(folder: Path) -> Scene:
    """As what the scene was started."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Scene)
    except (OSError, msgspec.DecodeError) as error:
        raise SceneError(f"{folder / FILE} cannot be read: {error}") from None


def open_scene(name: str = "") -> SceneClient:
    """The scene of a name that runs here; without one, the only one."""
    folder = scene_folder(name)
    return SceneClient(folder, list(read_started(folder).places()))


def runs(folder: Path, name: str) -> int:
    """The process of a node or of the medium; 0 if it does not answer."""
    try:
        return int(ask(folder / f"{name}{SOCKET}", "count", timeout_seconds=PATIENCE_SECONDS)["process"])
    except OverlayError:
        return 0


def start(scene: Scene, timeout_seconds: float = START_SECONDS) -> list[str]:
    """Start what does not run yet and wait until all of it answers; who was started.

    Only then do nodes announce what the scene lets them begin with: earlier, some would not have heard it.

    If none ran before and that fails, none is left running.
    """
    folder = overlay_folder(scene.scene)
    if any(len(os.fsencode(folder / f"{name}{SOCKET}")) > 100 for name in (*scene.places(), MEDIUM)):
        raise SceneError(f"{folder} is too long for sockets; set RECADO_RUNTIME to a shorter folder")
    names = [MEDIUM, *scene.places()]
    missing = [name for name in names if not runs(folder, name)]
    if len(missing) == len(names):
        shutil.rmtree(folder / "state", ignore_errors=True)
        files.replace(folder / FILE, msgspec.json.encode(scene))
    elif read_started(folder) != scene:
        raise SceneError(
            f"scene {scene.scene!r} runs, and was another one when it was started; first: recado radio down"
        )
    for kind in ("logs", "state"):
        (folder / kind).mkdir(exist_ok=True)
    try:
        _start_processes(folder, missing)
        _wait(folder, missing, timeout_seconds)
        for name in missing:
            if scene.subscribes(name):
                ask(folder / f"{name}{SOCKET}", "begin", timeout_seconds=timeout_seconds)
    except BaseException:
        if len(missing) == len(names):
            stop(folder)
        raise
    return [name for name in missing if name != MEDIUM]


def _start_processes(folder: Path, names: list[str]) -> None:
    if not names:
        return
    done = subprocess.run(  # noqa: S603  # this very interpreter
        [sys.executable, "-m", "recado.radio.launch", str(folder), *names],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SceneError(f"the processes of {', '.join(names[:5])} cannot be started: {done.stderr.strip()}")


def _wait(folder: Path, names: list[str], timeout_seconds: float) -> None:
    end = time.monotonic() + timeout_seconds
    waiting = names
    while waiting := [name for name in waiting if not runs(folder, name)]:
        if time.monotonic() > end:
            raise SceneError(
                f"{', '.join(waiting[:5])}: not there after {timeout_seconds:g} s; the logs are in {folder / 'logs'}"
            )
        time.sleep(0.02)


def stop(folder: Path, timeout_seconds: float = 20.0) -> int:
    """Ask all processes of a scene to stop, and end those that do not; how many nodes ran."""
    names = [*read_started(folder).places(), MEDIUM]
    pids = {}
    for name in names:
        pid = runs(folder, name)
        if pid:
            pids[name] = pid
            with suppress(OverlayError):
                ask(folder / f"{name}{SOCKET}", "stop", timeout_seconds=PATIENCE_SECONDS)
    end = time.monotonic() + timeout_seconds
    while any(map(_lives, pids.values())) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in filter(_lives, pids.values()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for name in names:
        for suffix in (SOCKET, ".air"):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)
    (folder / FILE).unlink(missing_ok=True)
    return len([name for name in pids if name != MEDIUM])


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return state.rpartition(b")")[2].split()[:1] != [b"Z"]


# --- The processes ---------------------------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Fork a process for each name. Each leads a session of its own, so that Ctrl-C here does not reach it.

    The medium comes first in the names, and the nodes wait for it.
    """
    folder, *names = arguments
    scene = read_started(Path(folder))
    gc.freeze()  # what is shared stays shared
    for name in names:
        if os.fork() == 0:
            os._exit(_become(scene, name, Path(folder)))
        if name == MEDIUM:
            _wait(Path(folder), [MEDIUM], START_SECONDS)
    return 0


def _become(scene: Scene, name: str, folder: Path) -> int:
    os.setsid()
    output = os.open(folder / "logs" / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        return asyncio.run(_run(scene, name, folder))
    except RecadoError as error:
        log.critical("%s", error)
    except Exception:
        log.exception("%s failed", name)
    return 2


async def _run(scene: Scene, name: str, folder: Path) -> int:
    loop = asyncio.get_running_loop()
    running = asyncio.create_task(run_medium(scene, folder) if name == MEDIUM else RadioNode(scene, name, folder).run())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
