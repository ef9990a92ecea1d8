"""``recado serve``, ``recado token`` and ``recado backup`` as a user runs them."""

import json
import signal
import subprocess
import sys
import tomllib
from contextlib import contextmanager

import httpx
import pytest

from recado.cli.app import main
from recado.server.config import Config, make_config
from recado.server.tokens import Tokens


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
        assert httpx.get(f"{url}/v1/subscriptions", headers=bob).status_code == 401
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

    for _ in range(500):
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
