"""Whatever a service keeps is its owner's alone, whatever the umask says; it does not start where that is not so."""

import asyncio
import os
import subprocess
from pathlib import Path
from stat import S_IMODE

import pytest

from recado.cli import token
from recado.errors import RecadoError
from recado.model.codec import read_event
from recado.server.config import ConfigError, Http
from recado.server.control import back_up
from recado.server.listener import tls_context
from recado.server.permissions import Principal
from recado.server.server import token_path
from recado.server.tokens import add_token
from server.running import run, serving


@pytest.fixture(autouse=True)
def _generous_umask():
    before = os.umask(0o000)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> dict[str, str]:
    every = [folder, *folder.rglob("*")]
    return {str(path): f"{S_IMODE(path.stat().st_mode):04o}" for path in every if path.stat().st_mode & 0o077}


async def publish(server, count):
    events = [read_event({"id": f"e{n}", "type": "Tick", "source": "/x", "n": n}) for n in range(count)]
    await server.engine.publish(Principal("ana"), events)


def test_the_data_folder_and_a_backup_are_private(tmp_path):
    async def main():
        async with serving(tmp_path, log={"segment_rows": 10}) as server:
            await publish(server, 40)
            await asyncio.to_thread(server.engine.log.seal)
            data = Path(server.gateway.config.data)
            add_token(token_path(server.gateway.config), "t", "ana", sip=True)
            assert list((data / "log" / "segments").glob("*.parquet"))
            assert open_to_others(data) == {}
            drafts = []
            copy = server.engine.log.copy

            def watched(target):
                copy(target)
                drafts.append((target.parent.name, open_to_others(target.parent)))

            server.engine.log.copy = watched
            await back_up(server.gateway, token_path(server.gateway.config), tmp_path / "copy")
            assert drafts == [("copy.draft", {})], "also while it is made"
            assert open_to_others(tmp_path / "copy") == {}

    run(main())


def test_a_token_is_made_in_a_private_folder(tmp_path):
    """The folder that ``recado token add`` makes is the one that the service then uses."""
    folder = tmp_path / "data"
    token.add("phone", user="ana", data=folder)
    assert open_to_others(folder) == {}


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701])
def test_a_service_does_not_start_on_a_folder_that_others_may_use(tmp_path, mode):
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(mode)

    async def main():
        async with serving(tmp_path):
            pass

    with pytest.raises(RecadoError, match=rf"\(mode {mode:04o}\).*chmod -R go-rwx {folder}"):
        run(main())
    subprocess.run(["chmod", "-R", "go-rwx", str(folder)], check=True)  # what it says is enough
    run(main())


def test_a_key_that_everybody_may_read_is_refused(tmp_path):
    key = tmp_path / "key.pem"
    key.write_text("")
    key.chmod(0o644)
    with pytest.raises(ConfigError, match=rf"http.key: everybody may read .*chmod o-rwx {key}"):
        tls_context(Http(certificate=str(key), key=str(key)))
    key.chmod(0o640)
    with pytest.raises(ConfigError, match="cannot be used"):
        tls_context(Http(certificate=str(key), key=str(key)))
