"""Services that tests start, kill, stop and start again, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from recado.overlay.launch import free_address

ZYGOTE = Path(__file__).with_name("zygote.py")
START_SECONDS = 90.0


class Zygote:
    """See ``zygote.py``."""

    def __init__(self, output: Path) -> None:
        self._output = output.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, str(ZYGOTE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._output
        )

    def serve(self, arguments: list[str]) -> int:
        self._process.stdin.write((json.dumps(arguments) + "\n").encode())
        self._process.stdin.flush()
        return self._hear("started")[0]

    def ended(self) -> tuple[int, int]:
        """Wait for the service to end: its process id and exit code."""
        return tuple(self._hear("ended"))

    def _hear(self, word: str) -> list[int]:
        said, *rest = json.loads(self._process.stdout.readline())
        assert said == word
        return rest

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._output.close()


class Service:
    """One data folder and one port, over any number of lives of the service."""

    def __init__(self, folder: Path, zygote: Zygote, **sections: dict[str, object]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.data = folder, folder / "data"
        self._zygote = zygote
        with ExitStack() as held:
            self.port = free_address("127.0.0.1:0", held).port
        self.pid = 0
        self.config = folder / "recado.toml"
        sections = {"http": {"port": self.port}, "logging": {"level": "warning"}} | sections
        lines = [f'data = "{self.data}"']
        for name, members in sections.items():
            lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in members.items())]
        self.config.write_text("\n".join(lines) + "\n")

    def url(self, user: str) -> str:
        return f"recado://{user}@127.0.0.1:{self.port}"

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, wait: bool = True) -> float:
        """Start it; the seconds until it accepts publications."""
        began = time.monotonic()
        self.pid = self._zygote.serve(["serve", "--config", str(self.config)])
        if wait:
            self.until_ready()
        return time.monotonic() - began

    def until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.http}/readyz", timeout=2).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.01)
        raise AssertionError("the service does not become ready")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        assert self._zygote.ended() == (self.pid, -signal.SIGKILL)
        self.pid = 0

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        pid, code = self._zygote.ended()
        assert pid == self.pid
        self.pid = 0
        return code
