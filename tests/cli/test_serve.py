"""``recado serve``, ``recado token`` and ``recado backup`` as a user runs them."""

import json
import signal
import subprocess
import sys
import threading
import tomllib
from contextlib import contextmanager

import httpx
import pytest

from client.service import Background
from recado.cli.app import main
from recado.server.config import Config, make_config
from recado.server.tokens import Tokens, add_token
from recado.store.log import SqliteEventLog


@contextmanager
def service(folder, *more):
    """A service in a process of its own; its URL."""
    command = [sys.executable, "-c", "import sys; from recado.cli.app import main; sys.exit(main())", "serve"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--data", str(folder / "data"), "--port", "0", *more],
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_service_starts_reloads_is_copied_and_drains(tmp_path, capfd):
    config = tmp_path / "recado.toml"
    config.write_text('[logging]\nlevel = "info"\n')
    with service(tmp_path, "--config", str(config)) as (process, url):
        ana = {"x-recado-user": "ana"}
        _until(lambda: httpx.get(f"{url}/readyz").status_code == 200)
        assert httpx.post(f"{url}/v1/events", json={"id": "1"}, headers=ana).json()["position"] == 0
        assert main(["serve", "--data", str(tmp_path / "data"), "--port", "0"]) == 1
        assert "has a writer already" in capfd.readouterr().err
        assert main(["serve", "--data", str(tmp_path / "other"), "--port", url.rpartition(":")[2]]) == 2
        assert "is in use" in capfd.readouterr().err
        assert main(["backup", str(tmp_path / "copy"), "--data", str(tmp_path / "data")]) == 0
        assert main(["token", "add", "t", "--user", "bob", "--data", str(tmp_path / "data")]) == 0
        token = capfd.readouterr().out.splitlines()[-1]
        bob = {"authorization": f"Bearer {token}"}
        assert httpx.get(f"{url}/v1/subscriptions", headers=bob).status_code == 200, "the verb tells the service"
        config.write_text('[logging]\nlevel = "debug"\n')
        process.send_signal(signal.SIGHUP)
        _until(lambda: "read again" in (tmp_path / "log").read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [line["text"] for line in lines if line["level"] == "info"][-1] == "the service drains"
    (tmp_path / "again").mkdir()
    (tmp_path / "copy").rename(tmp_path / "again" / "data")
    with service(tmp_path / "again") as (process, url):
        found = httpx.get(f"{url}/v1/replay", headers=ana).json()
        assert found["event"] == {"id": "1"}


def _until(condition):
    import time

    for _ in range(5_000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def test_the_token_of_a_service_that_was_started_without_one(tmp_path, capsys):
    data = ["--data", str(tmp_path)]
    rights = ["--publish", "a.*", "--publish", "b", "--deny-subscribe", "*"]
    assert main(["token", "add", "phone", "--user", "ana@example.org", *rights, *data]) == 0
    printed = capsys.readouterr()
    token = printed.out.strip()
    assert "only time" in printed.err
    who = Tokens(tmp_path / "tokens").find(token)
    assert (who.user, who.publish, who.subscribe, who.deny_subscribe) == (
        "ana@example.org",
        ("a.*", "b"),
        ("*",),
        ("*",),
    )
    assert token not in (tmp_path / "tokens").read_text()
    assert main(["token", "ls", *data]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert json.loads(line)["name"] == "phone"
    assert "sha256" not in line
    assert main(["token", "add", "phone", "--user", "eva", *data]) == 2
    assert main(["token", "add", "bad", "--user", "a b", *data]) == 2
    for name in ("", " ", "a\nb", 101 * "a"):
        assert main(["token", "add", name, "--user", "eva", *data]) == 2
    assert main(["token", "revoke", "phone", *data]) == 0
    assert main(["token", "revoke", "phone", *data]) == 2
    assert "no token with the name" in capsys.readouterr().err


def test_the_table_of_tokens_is_for_people(tmp_path, capsys, monkeypatch):
    data = ["--data", str(tmp_path)]
    monkeypatch.setattr("recado.cli.token.for_people", lambda json: not json)
    main(["token", "ls", *data])
    assert "no token" in capsys.readouterr().out
    main(["token", "add", "t", "--user", "ana", "--admin", "--deny-publish", "x", *data])
    main(["token", "ls", *data])
    shown = capsys.readouterr().out
    assert "* but not x" in shown
    assert "yes" in shown


def test_the_configuration_is_printed_and_checked(tmp_path, capsys):
    assert main(["serve", "--print-config", "--data", "x", "--port", "1", "--host", "::1"]) == 0
    text = capsys.readouterr().out
    found = make_config(tomllib.loads(text))
    assert (found.data, found.http.port, found.http.host, found.limits) == ("x", 1, "::1", Config().limits)
    file = tmp_path / "c.toml"
    file.write_text(text)
    assert main(["serve", "--check-config", str(file)]) == 0
    for bad, words in (("x = 1", "`x`"), ("[http]\nport = 'a'", "$.http.port"), ("[", "Invalid"), (b"\xff", "decode")):
        file.write_bytes(bad if isinstance(bad, bytes) else bad.encode())
        assert main(["serve", "--check-config", str(file)]) == 2
        assert words in capsys.readouterr().err
    assert main(["serve", "--check-config", str(tmp_path / "none")]) == 2


def test_a_service_that_cannot_start_says_why(tmp_path, capfd):
    for arguments, code, words in (
        (["--host", "0.0.0.0"], 2, "recado token add"),
        (["--host", "nowhere.invalid"], 2, "callers need tokens"),
        (["--config", str(tmp_path / "none.toml")], 2, "cannot be read"),
    ):
        assert main(["serve", "--data", str(tmp_path / "d"), "--port", "0", *arguments]) == code
        assert words in capfd.readouterr().err
    assert main(["serve", "--data", "/proc/none", "--port", "0"]) == 1
    assert "/proc/none" in capfd.readouterr().err


def test_a_backup_of_a_service_that_does_not_run(tmp_path, capfd):
    with service(tmp_path) as (process, url):
        httpx.post(f"{url}/v1/events", json={"id": "1"}, headers={"x-recado-user": "ana"})
        process.kill()
        process.wait()
    assert main(["backup", str(tmp_path / "copy"), "--data", str(tmp_path / "data")]) == 0
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["dead-letters.sqlite", "log", "state.sqlite"]
    assert main(["backup", str(tmp_path / "copy"), "--data", str(tmp_path / "data")]) == 2
    assert main(["backup", str(tmp_path / "x"), "--data", str(tmp_path / "nothing")]) == 2
    assert "no data folder" in capfd.readouterr().err


@pytest.mark.parametrize("word", ["serve", "token", "backup"])
def test_help_says_how(word, capsys):
    assert main([word, "--help"]) == 0
    assert "--data" in capsys.readouterr().out or word == "token"


SIP_AT = '[sip]\nregistrar = "embedded"\nhost = "HOST"\n[access]\ntokens = "{tokens}"'
SIP = '[sip]\nregistrar = "embedded"'
REFUSED = {
    "a host beyond loopback without tokens": ('[http]\nhost = "0.0.0.0"', "callers need tokens"),
    "a host of another machine": ('[http]\nhost = "203.0.113.1"\n[access]\ntokens = "{tokens}"', "203.0.113.1"),
    "no port": ("[http]\nport = 70000", "$.http.port: must be a whole number of at most 65535"),
    "a certificate that is none": ('[http]\ncertificate = "{none}"\nkey = "{none}"', "cannot be read"),
    "a key without a certificate": ('[http]\nkey = "{none}"', "are needed together"),
    "a token file that is not there": ('[access]\ntokens = "{none}"', "{none}"),
    "a data folder that is a file": ('data = "{file}"', "is a file"),
    "a data folder inside a file": ('data = "{file}/data"', "is a file"),
    "SIP at no place": (SIP_AT.replace("HOST", "0.0.0.0"), "names no place"),
    "SIP without tokens": ('[sip]\nregistrar = "embedded"\n[access]\nanonymous = false', "SIP needs tokens"),
    "SIP by a URI without a name": ('[sip]\nregistrar = "embedded"\nuri = "sip:example.org"', "has no name"),
    "a registrar that is no address": ('[sip]\nregistrar = "x y"', "$.sip.registrar"),
    "a registrar without a host": ('[sip]\nregistrar = "nowhere.invalid:5060"', "nowhere.invalid"),
    "SIP at a host of another machine": (SIP_AT.replace("HOST", "203.0.113.1"), "203.0.113.1"),
    "overrides that are not there": ('[semantics]\noverrides = "{none}"', "$.semantics.overrides"),
    "frequencies that are not there": ('[semantics]\nfrequencies = "{none}"', "$.semantics.frequencies"),
    "segments of nothing": ("[log]\nsegment_rows = 0", "segment_rows"),
    "a data folder that others may use": ('data = "{open}"', "chmod -R go-rwx"),
    "a data folder with NUL": ('data = "a\\u0000b"', "$.data: must hold no NUL"),
    "a file with NUL": ('[logging]\naudit = "a\\u0000b"', "$.logging.audit: must hold no NUL"),
    "an audit log in no folder": ('[logging]\naudit = "{none}/audit"', "logging.audit: "),
    "an audit log that is a folder": ('[logging]\naudit = "{open}"', "logging.audit: "),
    "a certificate of SIP that is none": (SIP + '\ncertificate = "{none}"\nkey = "{none}"', "sip.key: "),
    "a key of SIP without a certificate": (SIP + '\nkey = "{none}"', "are needed together"),
    "TLS of an embedded registrar": (SIP + '\ntransport = "tls"', "$.sip.transport"),
    "an authority of SIP that is none": (
        '[sip]\nregistrar = "127.0.0.1:5060"\ntransport = "tls"\nca = "{none}"',
        "$.sip.ca",
    ),
    "one port for SIP and RUDP": (SIP + "\nport = 17_999\nrudp_port = 17_999", "$.sip.port and $.sip.rudp_port"),
    "one port for HTTP and SIP": ("[http]\nport = 17_999\n" + SIP + "\nport = 17_999", "$.http.port and $.sip.port"),
    "a choice that there is not": ('[sip]\ntransport = "carrier pigeon"', "is none of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_service_refuses_is_refused_when_its_configuration_is_checked(tmp_path, capfd, name):
    names = {"none": tmp_path / "none", "file": tmp_path / "file", "tokens": tmp_path / "tokens"}
    names["open"] = tmp_path / "open"
    names["open"].mkdir()
    names["open"].chmod(0o755)
    names["file"].write_text("x")
    add_token(names["tokens"], "t", "ana", sip=True)
    text, words = (part.format(**names) for part in REFUSED[name])
    file = tmp_path / "c.toml"
    file.write_text(text if text.startswith("data") else f'data = "{tmp_path / "data"}"\n{text}')
    assert main(["serve", "--check-config", str(file)]) in (1, 2)
    assert words in capfd.readouterr().err
    port = [] if text.startswith("[http]\nport") else ["--port", "0"]
    assert main(["serve", "--config", str(file), *port]) in (1, 2)
    assert words in capfd.readouterr().err


def test_a_configuration_is_checked_while_its_service_runs(tmp_path, capsys):
    with Background(tmp_path / "data") as service:
        file = tmp_path / "c.toml"
        file.write_text(f'data = "{tmp_path / "data"}"\n[http]\nport = {service.url.rpartition(":")[2]}\n')
        assert main(["serve", "--check-config", str(file)]) == 0


def test_a_backup_waits_for_a_service_that_is_about_to_listen(tmp_path, capsys):
    """It has the folder already; the socket by which it is asked comes a moment later."""
    data = tmp_path / "data"
    log = SqliteEventLog.open(data / "log")
    timer = threading.Timer(0.5, log.close)
    timer.start()
    assert main(["backup", str(tmp_path / "copy"), "--data", str(data)]) == 0
    timer.join()
    assert (tmp_path / "copy" / "log").is_dir()
