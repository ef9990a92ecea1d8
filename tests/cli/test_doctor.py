"""``recado doctor`` as a user runs it: each thing that can be wrong is made wrong."""

import errno
import os
import socket
import time
from collections import namedtuple
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from client.service import Background
from recado import files
from recado.matching.kernels import cache
from recado.server import doctor
from recado.server.tokens import add_token


@pytest.fixture
def examine(recado, tmp_path):
    """Run it on ``tmp_path/data``; the exit code and the findings by check."""

    def run(text="", *more):
        config = tmp_path / "c.toml"
        config.write_text(f'data = "{tmp_path / "data"}"\n{text}' if "[http]" in text else
                          f'data = "{tmp_path / "data"}"\n[http]\nport = 0\n{text}')  # fmt: skip
        done = recado("doctor", "--config", str(config), *more)
        found = {}
        for record in done.records:
            found.setdefault(record["check"], []).append((record["state"], record["found"], record["advice"]))
        return done.code, found

    return run


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return folder


def test_all_is_well(examine, data, monkeypatch):
    monkeypatch.setattr(cache, "is_prepared", lambda: True)
    code, found = examine()
    assert code == 0
    assert set(found) == {"configuration", "data folder", "disk", "fsync", "clock", "kernels", "port", "certificate"}
    assert {state for rows in found.values() for state, *_ in rows} <= {"ok", "warning"}  # a test machine may be slow
    assert found["data folder"] == [("ok", f"{data} is private", "")]
    assert list(data.iterdir()) == []


def test_a_table_for_people(recado, data):
    data.chmod(0o755)
    run = recado("doctor", "--data", str(data), "--port", "0", terminal=True)
    assert run.code == 1
    assert "data folder" in run.out
    assert "chmod -R go-rwx" in " ".join(run.out.split())
    assert "1 thing is wrong" in run.out


def test_a_configuration_that_cannot_be_read_or_used(examine, recado, tmp_path):
    run = recado("doctor", "--config", str(tmp_path / "none.toml"))
    assert run.code == 1
    [record] = run.records
    assert (record["check"], record["state"]) == ("configuration", "wrong")
    assert "--print-config" in record["advice"]
    code, found = examine('[http]\nhost = "0.0.0.0"\nport = 0\n')
    assert code == 1
    assert "callers need tokens" in found["configuration"][0][1]


def test_warnings_of_the_start_are_findings(examine, data, caplog):
    add_token(data / "tokens", "t", "ana")
    code, found = examine()
    assert code == 0
    assert [row[0] for row in found["configuration"]] == ["ok", "warning"]
    assert "access.anonymous" in found["configuration"][1][1]
    assert caplog.records == [], "nothing goes to the log besides"


def test_a_data_folder_that_is_not_there_or_is_a_file_or_open(examine, tmp_path):
    code, found = examine()
    assert (code, found["data folder"][0][0]) == (0, "ok")
    assert not (tmp_path / "data").exists()
    (tmp_path / "data").write_text("x")
    code, found = examine()
    assert code == 1
    assert "is a file" in found["data folder"][0][1]
    (tmp_path / "data").unlink()
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "state.sqlite").write_text("")
    (tmp_path / "data" / "state.sqlite").chmod(0o644)
    code, found = examine()
    assert code == 0
    state, text, advice = found["data folder"][0]
    assert (state, advice) == ("warning", f"chmod -R go-rwx {tmp_path / 'data'}")
    assert "state.sqlite: not private" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_files_of_another_user(examine, data):
    for number in range(5):
        (data / str(number)).touch(0o600)
        os.chown(data / str(number), 12345, 12345)
    code, found = examine()
    assert code == 1
    state, text, advice = found["data folder"][0]
    assert state == "wrong"
    assert "and 2 more: not of the folder's owner, user 0" in text
    assert advice.startswith("chown -R 0 ")


def test_little_room(examine, data, monkeypatch):
    code, found = examine("[log]\nretain_bytes = 1_000_000_000_000_000\n")
    assert (code, found["disk"][0][0]) == (0, "warning")
    assert "log.retain_bytes" in found["disk"][0][2]
    Room = namedtuple("Room", "f_bavail f_frsize f_files f_favail")
    for room, words in ((Room(1000, 4096, 9, 9), "4 MB free"), (Room(10**9, 4096, 9, 0), "no file can be made")):
        monkeypatch.setattr(os, "statvfs", lambda _, room=room: room)
        code, found = examine()
        assert (code, found["disk"][0][0]) == (1, "wrong")
        assert words in found["disk"][0][1]


def test_a_disk_that_fails_or_is_slow(examine, data, monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, "Input/output error")

    sync = files.sync
    monkeypatch.setattr(files, "sync", fail)
    code, found = examine()
    assert (code, found["fsync"][0][0]) == (1, "wrong")
    assert "Input/output error" in found["fsync"][0][1]
    assert list(data.iterdir()) == []
    monkeypatch.setattr(files, "sync", lambda file: (sync(file), time.sleep(0.15)))
    code, found = examine()
    assert (code, found["fsync"][0][0]) == (0, "warning")


def test_a_clock_that_is_wrong(examine, data, monkeypatch):
    (data / "state.sqlite").touch(0o600)
    os.utime(data / "state.sqlite", (time.time() + 7_200,) * 2)
    code, found = examine()
    assert code == 1
    assert "s behind the newest file" in found["clock"][0][1]
    (data / "state.sqlite").unlink()
    real = time.time
    monkeypatch.setattr(doctor.time, "time", lambda: real() % 1_000_000)
    code, found = examine()
    assert code == 1
    assert "1970-01-" in found["clock"][0][1]
    moments = iter([real(), real() - 3_600])
    monkeypatch.setattr(doctor.time, "time", lambda: next(moments, real()))
    [finding] = doctor.check_clock(data)
    assert finding.state == "warning"
    assert "moved by -3" in finding.found


def test_kernels_that_are_not_compiled(examine, data, monkeypatch):
    monkeypatch.setattr(cache, "is_prepared", lambda: False)
    code, found = examine()
    assert (code, found["kernels"][0][0]) == (0, "warning")
    assert "recado kernels build" in found["kernels"][0][2]
    monkeypatch.setattr(cache, "can_write", lambda: False)
    assert "NUMBA_CACHE_DIR" in examine()[1]["kernels"][0][2]


def test_ports_that_are_free_ours_or_of_others(examine, data, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, found = examine(f"[http]\nport = {port}\n")
        assert code == 1
        assert f"127.0.0.1:{port}/tcp (http.port) is in use" in found["port"][0][1]
        assert f"sport = :{port}" in found["port"][0][2]
        with Background(data) as service:
            ours = service.url.rpartition(":")[2]
            code, found = examine(f"[http]\nport = {ours}\n")
            assert code == 0
            assert f"is held by the service of {data}, process {os.getpid()}" in found["port"][0][1]
    code, found = examine(f"[http]\nport = {port}\n")
    assert (code, found["port"][0][1]) == (0, f"127.0.0.1:{port}/tcp (http.port) is free")
    code, found = examine('[http]\nhost = "192.0.2.1"\nport = 7230\n')
    assert code == 1
    assert "192.0.2.1:7230/tcp" in found["port"][0][1]


def test_a_port_of_another_process_is_not_ours(examine, data, monkeypatch):
    """A service runs on the folder, and yet something else has the port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr(doctor, "service_pid", lambda _: os.getppid())
        assert examine(f"[http]\nport = {port}\n")[0] == 1
        monkeypatch.setattr(doctor, "service_pid", lambda _: os.getpid())
        assert examine(f"[http]\nport = {port}\n")[0] == 0


def test_ports_of_sip(examine, data):
    sip = '[sip]\nregistrar = "embedded"\nport = {}\nrudp_port = 0\n'
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        code, found = examine(sip.format(port))
        assert code == 1
        assert f"127.0.0.1:{port}/udp (sip.port) is in use" in found["port"][1][1]
    for _ in range(20):  # whoever else asks for a port may get this one meanwhile
        code, found = examine(sip.format(port))
        if code == 0:
            break
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", 0))
            port = other.getsockname()[1]
    assert [row[0] for row in found["port"]] == ["ok"] * 4


@pytest.fixture
def certificate(tmp_path):
    """Write a certificate and its key that are valid for some days; the lines of a configuration."""
    authority = trustme.CA()

    def write(days, name="server", key=None):
        ends = datetime.now(UTC) + timedelta(days=days)
        made = authority.issue_cert("localhost", not_before=ends - timedelta(days=100), not_after=ends)
        path, key_path = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        made.cert_chain_pems[0].write_to_path(path)
        made.private_key_pem.write_to_path(key_path)
        key_path.chmod(0o600)
        return f'[http]\nport = 0\ncertificate = "{path}"\nkey = "{key or key_path}"\n'

    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return write


def test_certificates(examine, data, certificate, tmp_path):
    def judged(text):
        code, found = examine(text)
        state, words, advice = found["certificate"][0]
        assert code == (state == "wrong")
        return state, words, advice

    state, words, _ = judged(certificate(60))
    assert state == "ok"
    assert "is valid until" in words
    state, words, advice = judged(certificate(3))
    assert state == "warning"
    assert "days" in words
    assert advice == "renew it, and send the service SIGHUP"
    sip = (
        certificate(3).replace("port = 0\n", 'registrar = "embedded"\nport = 0\nrudp_port = 0\n').replace("http", "sip")
    )
    _, found = examine(f"[http]\nport = 0\n{sip}")
    assert found["certificate"][0][::2] == ("warning", "renew it, and send the service SIGHUP")
    state, words, advice = judged(certificate(-1))
    assert state == "wrong"
    assert "expired" in words
    assert "renew it" in advice
    state, words, advice = judged(certificate(150))
    assert state == "wrong"
    assert (("not yet valid" in words), advice) == (True, "set the clock")
    certificate(60, "other")
    state, words, _ = judged(certificate(60, key=tmp_path / "other.key"))
    assert state == "wrong"
    assert "the key does not fit" in words
    text = certificate(60)
    (tmp_path / "server.key").chmod(0o604)
    assert "everybody may read" in judged(text)[1]
    (tmp_path / "server.key").unlink()
    assert "cannot be read" in judged(text)[1]
    text = certificate(60)
    (tmp_path / "server.pem").write_text("none")
    assert "not a certificate and key" in judged(text)[1]
    (tmp_path / "server.pem").unlink()
    assert "cannot be read" in judged(text)[1]


def test_the_authority_of_callers(examine, data, certificate, tmp_path):
    text = certificate(60)
    code, found = examine(f'{text}client_ca = "{tmp_path / "ca.pem"}"\n')
    assert code == 0
    assert "http.client_ca" in found["certificate"][1][1]
    code, found = examine(f'{text}client_ca = "{tmp_path / "server.pem"}"\n')
    assert code == 1
    assert "has no authority" in found["certificate"][1][1]
    code, found = examine(f'{text}client_ca = "{tmp_path / "none"}"\n')
    assert code == 1
    assert "cannot be used" in found["certificate"][1][1]
