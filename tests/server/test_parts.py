"""The small parts of the ways in: rates, identity, metrics, logs, the text of the configuration, the control socket."""

import asyncio
import io
import logging
import re
import socket
import stat
import threading
from pathlib import Path

import msgspec
import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

from recado.errors import EventError, FilterError, LimitError, RecadoError
from recado.server.config import (
    MEANINGS,
    Access,
    Config,
    ConfigError,
    Logging,
    config_tables,
    config_text,
    entries,
    make_config,
    read_config,
)
from recado.server.control import ControlError, Request, ask
from recado.server.identity import Rates, is_loopback
from recado.server.listener import ListenError, bind, tls_context
from recado.server.logs import JsonForm, TextForm, configure_logs
from recado.server.metrics import COUNTS, DURATIONS, GROWING, LABELLED, STATES, Histogram, Metrics, exposition
from recado.server.permissions import Busy, Conflict, Denied, Unknown
from recado.server.problems import StatusError, TooManyError, UnauthenticatedError, problem, status_of, text_of
from recado.server.server import Server, open_tokens
from recado.server.sip import check_sip
from recado.server.tokens import add_token, revoke_token
from recado.store.log.settings import LogError
from recado.version import __version__
from server.running import agent, config, http, m, run, serving, until

DOCS = Path(__file__).parents[2] / "docs"


# -- rates -------------------------------------------------------------------------------------------------------------


def test_a_bucket_allows_bursts_and_no_floods():
    now = [0.0]
    rates = Rates(2, 4, lambda: now[0])
    assert [rates.take("a") for _ in range(4)] == [0, 0, 0, 0]
    assert rates.take("a") == 0.5
    assert rates.take("b") == 0
    now[0] = 0.5
    assert (rates.take("a"), rates.take("a") > 0) == (0, True)
    now[0] = 100
    assert rates.take("a", 50) == 0  # larger than the bucket, which is full; then it takes long
    assert rates.take("a") > 20
    assert Rates(0, 0, lambda: 0).take("a", 10**9) == 0


def test_buckets_are_bounded(monkeypatch):
    monkeypatch.setattr("recado.server.identity._MOST", 10)
    rates = Rates(1, 1, lambda: 0.0)
    for number in range(100):
        rates.take(str(number))
    assert len(rates._buckets) == 10


# -- problems ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UnauthenticatedError("x"), 401), (Denied("x"), 403), (Unknown("x"), 404), (Conflict("x"), 409),
        (TooManyError("x", 9), 429), (Busy("x"), 503), (LogError("x"), 503), (EventError("$.id: x"), 400),
        (FilterError("x", text="a", position=0), 400), (LimitError("x"), 400), (StatusError(415, "x"), 415),
    ],
)  # fmt: skip
def test_errors_have_statuses(error, status):
    answer = problem(error, "/p")
    assert (status_of(error), answer.status_code) == (status, status)
    assert msgspec.json.decode(answer.body)["instance"] == "/p"
    assert ("retry-after" in answer.headers) == (status in (429, 503))


def test_places_are_named_and_endless_texts_are_cut():
    assert msgspec.json.decode(problem(EventError("$.a[3].b: bad"), "").body)["place"] == "$.a[3].b"
    assert "place" not in msgspec.json.decode(problem(EventError("bad: $"), "").body)
    assert len(text_of(RecadoError("x" * 10_000))) < 2_100


def test_loopback_names():
    for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"):
        assert is_loopback(host)
    for host in ("", "0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "127.0.0.1.nip.io", "*"):
        assert not is_loopback(host)


# -- metrics -----------------------------------------------------------------------------------------------------------


def test_metrics_are_read_by_prometheus():
    metrics = Metrics()
    metrics.published += 3
    metrics.by["refused"]['odd"\n'] += 1
    metrics.requests["GET", "/x", "200"] += 2
    metrics.publish_seconds.observe(0.003, 2)
    metrics.publish_seconds.observe(99)
    text = exposition(metrics, {"waiting": 5.0, "faults": 2.0}, {"log": "full", "state": ""}).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    for name in (*COUNTS, *LABELLED, *DURATIONS):
        assert f"recado_{name}" in found
    assert found["recado_published"].samples[0].value == 3
    assert found["recado_waiting_notifications"].samples[0].value == 5
    assert found["recado_faults"].samples[0].value == 2
    assert {s.labels["kind"]: s.value for s in found["recado_trouble"].samples} == {"log": 1, "state": 0}
    assert found["recado_refused"].samples[0].labels == {"reason": 'odd"\n'}
    buckets = {s.labels["le"]: s.value for s in found["recado_publish_seconds"].samples if s.name.endswith("_bucket")}
    assert (buckets["0.0025"], buckets["0.005"], buckets["10.0"], buckets["+Inf"]) == (0, 2, 2, 3)


def test_metrics_follow_the_conventions():
    """Counters end in _total, no two families share a name, each says what it is, and the process is among them."""
    text = exposition(Metrics(), dict.fromkeys([*STATES, *GROWING], 1.0), {"log": ""}).decode()
    families = list(text_string_to_metric_families(text))
    bare = [family.name.removesuffix("_total") for family in families]
    assert len(set(bare)) == len(bare)
    for family in families:
        assert re.fullmatch(r"(recado|process)_[a-z_]+", family.name)
        assert len(family.documentation) > 10, family.name
        assert "at this moment" not in family.documentation
        if family.type == "counter":
            assert all(sample.name.endswith("_total") for sample in family.samples), family.name
        else:
            assert not family.name.endswith("_total")
    names = {family.name for family in families}
    assert {"process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds"} <= names
    [build] = [sample for family in families if family.name == "recado_build_info" for sample in family.samples]
    assert (build.labels["version"], build.value) == (__version__, 1)


def test_every_count_has_its_attribute():
    metrics = Metrics()
    assert all(getattr(metrics, name) == 0 for name in COUNTS)
    assert all(isinstance(getattr(metrics, name), Histogram) for name in DURATIONS)


# -- logs --------------------------------------------------------------------------------------------------------------


def record(text="it happened", level=logging.INFO, **extra):
    made = logging.makeLogRecord(
        {"name": "recado.x", "levelno": level, "levelname": logging.getLevelName(level), "msg": text}
    )
    made.__dict__.update(extra)
    return made


def test_the_two_forms_of_a_log():
    members = msgspec.json.decode(JsonForm().format(record(user="ana", count=3, odd=object)))
    assert (members["level"], members["text"], members["user"], members["count"]) == ("info", "it happened", "ana", 3)
    assert members["at"].endswith("Z")
    assert TextForm().format(record(user="ana")).endswith("info     it happened  user=ana")


def test_tokens_are_blotted_out_wherever_they_stand():
    try:
        int("Authorization: Bearer abc.def")
    except ValueError as error:
        trouble = record(
            "rcd_abcdefghijkl", token="x rcd_abcdefghijkl y", exc_info=(ValueError, error, error.__traceback__)
        )
    for form in (JsonForm(), TextForm()):
        text = form.format(trouble)
        assert "***" in text
        assert "abcdef" not in text
        assert "abc.def" not in text
        assert "ValueError" in text


def test_the_level_can_be_changed_and_handlers_do_not_pile_up():
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    out = io.StringIO()
    try:
        configure_logs(Logging(level="warning"), out)
        configure_logs(Logging(level="info", format="json"), out)
        logging.getLogger("recado.test").info("one")
        logging.getLogger("httpx").info("not this")
        assert [msgspec.json.decode(line)["text"] for line in out.getvalue().splitlines()] == ["one"]
    finally:
        root.handlers[:] = before
        root.setLevel(level)


# -- configuration -----------------------------------------------------------------------------------------------------


def test_every_member_has_a_meaning_and_the_text_is_read_back():
    import tomllib

    names = [f"{section}.{name}".lstrip(".") for section, name, _ in entries(Config())]
    assert list(MEANINGS) == names
    assert make_config(tomllib.loads(config_text(Config()))) == Config()
    changed = Config(data='a"b\\c', access=Access(default_publish=("x", "y*")))
    assert make_config(tomllib.loads(config_text(changed))) == changed


@pytest.mark.parametrize(
    ("section", "member", "value"),
    [
        ("limits", "body_bytes", -5),
        ("limits", "replays_per_user", 0),
        ("sessions", "window", 0),
        ("sessions", "hello_seconds", float("nan")),
        ("sessions", "ping_seconds", float("inf")),
        ("mailbox", "length", -1),
        ("webhooks", "attempts", 0),
        ("http", "port", 70_000),
        ("subscriptions", "time_zone", "Mars/North"),
        ("subscriptions", "time_zone", "../zone"),
        ("subscriptions", "time_zones", "UTC"),
    ],
)
def test_values_that_make_no_sense_are_named(section, member, value):
    with pytest.raises(ConfigError, match=member):
        make_config({section: {member: value}})


def test_the_page_about_the_configuration_is_what_the_code_says():
    page = (DOCS / "configuration.md").read_text()
    assert config_tables(Config()) in page


def test_beyond_loopback_there_must_be_tokens(tmp_path):
    closed = config(tmp_path, http={"host": "0.0.0.0"})
    with pytest.raises(ConfigError, match="recado token add"):
        open_tokens(closed)
    path = tmp_path / "data" / "tokens"
    path.parent.mkdir()
    add_token(path, "t", "ana")
    assert len(open_tokens(closed)) == 1
    with pytest.raises(RecadoError, match="cannot be read"):
        open_tokens(config(tmp_path, access={"tokens": str(tmp_path / "none")}))
    path.chmod(0o644)
    with pytest.raises(RecadoError, match="chmod 600"):
        open_tokens(closed)


@pytest.mark.parametrize(
    ("encrypted", "words"),
    [(False, "SIP and RUDP travel unencrypted, and sip.host 192.0.2.1"), (True, "RUDP travels unencrypted")],
)
def test_sip_beyond_loopback_is_warned_of_as_http_is(tmp_path, caplog, encrypted, words):
    """It started without a word."""
    add_token(tmp_path / "tokens", "t", "ana", sip=True)
    sip = {"registrar": "embedded", "host": "192.0.2.1"}
    if encrypted:
        issued = trustme.CA().issue_cert("localhost")
        issued.cert_chain_pems[0].write_to_path(tmp_path / "c.pem")
        issued.private_key_pem.write_to_path(tmp_path / "k.pem")
        (tmp_path / "k.pem").chmod(0o600)
        sip |= {"certificate": str(tmp_path / "c.pem"), "key": str(tmp_path / "k.pem")}
    closed = config(tmp_path, sip=sip, access={"tokens": str(tmp_path / "tokens")})
    run(check_sip(closed, open_tokens(closed)))
    assert words in caplog.text
    caplog.clear()
    there = config(tmp_path, sip={"registrar": "embedded"})
    run(check_sip(there, open_tokens(there)))
    assert "unencrypted" not in caplog.text


def test_beyond_loopback_nobody_is_anonymous(tmp_path):
    async def check():
        (tmp_path / "data").mkdir(mode=0o700)
        token = add_token(tmp_path / "data" / "tokens", "t", "ana")
        async with Server.start(config(tmp_path, http={"host": "0.0.0.0"})) as server:
            server._listener.url = server.url.replace("0.0.0.0", "127.0.0.1")
            async with http(server, "ana") as nobody, http(server, token=token) as ana:
                assert (await nobody.get("/v1/subscriptions")).status_code == 401
                assert (await nobody.get("/metrics")).status_code == 401
                assert (await nobody.get("/healthz")).status_code == 200
                assert (await ana.get("/v1/subscriptions")).status_code in (200, 503)
                assert (await ana.get("/metrics")).status_code == 403

    run(check())


def test_addresses_that_cannot_be_listened_on():
    taken = bind("127.0.0.1", 0)
    taken.listen()
    with taken, pytest.raises(ListenError, match="is in use"):
        bind("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(ListenError, match="no address"):
        bind("nowhere.invalid", 0)
    with pytest.raises(ListenError, match="cannot listen"):
        bind("192.0.2.1", 0)
    for port in (-1, 65_536, 99_999):
        with pytest.raises(ListenError, match="is no port; use one from 1 to 65535"):
            bind("127.0.0.1", port)


def test_tls_with_and_without_certificates_of_callers(tmp_path):
    import ssl

    import httpx

    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    (tmp_path / "server.pem").chmod(0o600)
    mine = authority.issue_cert("ana@example.org")
    files = {"certificate": str(tmp_path / "server.pem"), "key": str(tmp_path / "server.pem")}

    async def check(more, certificate):
        async with Server.start(config(tmp_path, http={**files, **more})) as server:
            trust = ssl.create_default_context(cafile=tmp_path / "ca.pem")
            if certificate:
                mine.configure_cert(trust)
            url = server.url.replace("127.0.0.1", "localhost")
            assert url.startswith("https://")
            async with httpx.AsyncClient(verify=trust, headers={"x-recado-user": "ana"}) as client:
                return (await client.post(f"{url}/v1/events", json={})).status_code

    assert run(check({}, False)) == 202
    assert run(check({"client_ca": str(tmp_path / "ca.pem")}, True)) == 202
    with pytest.raises(httpx.TransportError):
        run(check({"client_ca": str(tmp_path / "ca.pem")}, False))
    for bad in ({"certificate": "x"}, {"client_ca": "x"}, {"certificate": "/none", "key": "/none"}):
        with pytest.raises(ConfigError, match=r"http\.(certificate|key)"):
            tls_context(msgspec.structs.replace(Config().http, **bad))


def test_a_renewed_certificate_is_taken_without_a_new_start(tmp_path, caplog):
    """New connections get it, open ones go on; one that cannot be used changes nothing."""
    import ssl

    authority, path = trustme.CA(), tmp_path / "server.pem"
    trust = ssl.create_default_context()
    authority.configure_trust(trust)

    def renew():
        made = authority.issue_cert("localhost")
        made.private_key_and_cert_chain_pem.write_to_path(path)
        path.chmod(0o600)
        return ssl.PEM_cert_to_DER_cert(made.cert_chain_pems[0].bytes().decode())

    async def connect(server):
        return await asyncio.open_connection(
            "127.0.0.1", server.url.rpartition(":")[2], ssl=trust, server_hostname="localhost"
        )

    async def ask(reader, writer):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(b'{"status":"ok"}'))
        assert head.startswith(b"HTTP/1.1 200")
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)

    async def check():
        first = renew()
        files = {"certificate": str(path), "key": str(path)}
        async with asyncio.timeout(30), Server.start(config(tmp_path, http=files)) as server:
            old = await connect(server)
            assert await ask(*old) == first
            second = renew()
            before = await connect(server)
            assert await ask(*before) == first, "nobody said that it is to be read"
            server.reload()
            new = await connect(server)
            assert await ask(*new) == second != first
            assert await ask(*old) == first
            path.write_bytes(b"none")
            server.reload()
            assert "nothing was changed" in caplog.text
            last = await connect(server)
            assert await ask(*last) == second
            for _, writer in (old, before, new, last):
                writer.close()
                await writer.wait_closed()

    run(check())


# -- running -----------------------------------------------------------------------------------------------------------


def test_reload_takes_up_tokens_and_survives_a_bad_file(tmp_path, caplog):
    async def check():
        path = tmp_path / "tokens"
        first = add_token(path, "one", "ana")
        access = {"tokens": str(path), "anonymous": False}
        async with serving(tmp_path, access=access) as server, http(server, token=first) as client:
            second = add_token(path, "two", "bob")
            async with http(server, token=second) as late:
                assert (await late.get("/v1/subscriptions")).status_code == 401
                server.reload()
                assert (await late.get("/v1/subscriptions")).status_code == 200
            for spoil in (lambda: path.write_text("nonsense"), path.unlink):
                spoil()
                server.reload()
                assert (await client.get("/v1/subscriptions")).status_code == 200

    run(check())
    assert caplog.text.count("could not be read again") == 2


def test_the_first_token_needs_no_new_start(tmp_path):
    async def check():
        async with serving(tmp_path, access={"anonymous": False}) as server:
            server.reload()
            token = add_token(tmp_path / "data" / "tokens", "one", "ana")
            async with http(server, token=token) as client:
                assert (await client.get("/v1/subscriptions")).status_code == 401
                server.reload()
                assert (await client.get("/v1/subscriptions")).status_code == 200

    run(check())


def test_a_configuration_that_is_broken_when_read_again_changes_nothing(tmp_path, caplog):
    async def check():
        path = tmp_path / "tokens"
        token = add_token(path, "one", "ana")
        broken = tmp_path / "broken.toml"
        broken.write_text("[http")
        settings = config(tmp_path, access={"tokens": str(path), "anonymous": False})
        async with Server.start(settings, lambda: read_config(broken)) as server, http(server, token=token) as client:
            await server.engine.when_loaded()
            revoke_token(path, "one")
            server.reload()
            assert (await client.get("/v1/subscriptions")).status_code == 200

    run(check())
    assert "nothing was changed" in caplog.text
    assert "broken.toml" in caplog.text


def test_a_backup_of_a_running_service_can_be_served(tmp_path):
    async def check(tmp_path):
        async with serving(tmp_path) as server, agent(server) as ana, http(server) as client:
            await ana.subscribe(1, id="s")
            await client.post("/v1/events", json={"id": "before"})
            told = await ana.next(m.Notify)
            data = tmp_path / "data"
            mode = (data / "control.sock").stat().st_mode
            assert stat.S_IMODE(mode) == 0o600
            assert await asyncio.to_thread(ask, data, Request(str(tmp_path / "copy" / "data")))
            assert stat.S_IMODE((tmp_path / "copy" / "data").stat().st_mode) == 0o700
            (tmp_path / "file").touch()
            for target, words in (
                ("copy/data", "not empty"),
                ("file", "Not a directory"),
                ("data/copy", "lost with it"),
            ):
                with pytest.raises(ControlError, match=words):
                    await asyncio.to_thread(ask, data, Request(str(tmp_path / target)))
            server._control.back_up = None  # what nobody foresaw is answered, too
            with pytest.raises(ControlError, match="its log says why"):
                await asyncio.to_thread(ask, data, Request(str(tmp_path / "other")))
        assert not ask(data, Request("x"))
        async with serving(tmp_path / "copy") as server, agent(server) as ana:
            again = await ana.next(m.Notify)
            assert again.nid == told.nid

    run(check(tmp_path / ("deep" * 30)))  # longer than the path of a socket may be


def test_a_service_that_ends_before_it_answers_is_told(tmp_path):
    """The commands that ask it ended in a traceback."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control.sock"))
        listener.listen()

        def hang_up():
            listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(RecadoError, match="ended before it answered"):
            ask(tmp_path, Request(tokens=True))
        thread.join()


def test_a_fault_in_one_session_leaves_the_tokens_watched(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("recado.server.server.WATCH_SECONDS", 0.02)

    async def check():
        tokens = tmp_path / "tokens"
        for name in ("one", "two"):
            add_token(tokens, name, "ana")
        async with serving(tmp_path, access={"tokens": str(tokens)}) as server:
            faulty = server._listener.recheck
            monkeypatch.setattr(server._listener, "recheck", None)
            revoke_token(tokens, "one")
            await until(lambda: "not all that is open was looked at" in caplog.text)
            assert server.engine.status()["faults"] == 1
            monkeypatch.setattr(server._listener, "recheck", faulty)
            revoke_token(tokens, "two")
            await until(lambda: not len(server.gateway.tokens))

    run(check())


def test_strangers_who_speak_no_http_write_no_line_each():
    configure_logs(Logging())
    assert not logging.getLogger("uvicorn.error").isEnabledFor(logging.WARNING)
    assert logging.getLogger("uvicorn.error").isEnabledFor(logging.ERROR)
