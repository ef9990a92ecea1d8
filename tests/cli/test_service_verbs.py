"""pub, sub, replay, session, mailbox, subscription and context, as a person types them, against a real service."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from client.service import Background
from recado.cli.flags import parse_start
from recado.cli.pub import expand, members, scalar
from recado.cli.service_output import compile_format, readable_line
from recado.client.urls import contexts_path
from recado.errors import RecadoError

RECADO = str(Path(sys.executable).parent / "recado")


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Background(tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture(autouse=True)
def environment(service, monkeypatch, tmp_path, request):
    """Every test is a user of its own, in a configuration folder of its own."""
    user = re.sub(r"\W", "-", request.node.name)[:60]
    monkeypatch.setenv("RECADO_URL", service.url.replace("http://", f"recado://{user}@"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("RECADO_TOKEN", raising=False)
    return user


# -- pub and sub


def test_a_subscriber_that_was_away(recado):
    assert recado("sub", "Price < 25", "--type", "T1", "--durable", "cheap", "--timeout", "0.05").code == 3
    published = recado("pub", "T1", "Stock=PETR4", "Price=24.9")
    assert published.code == 0
    position = published.records[0]["position"]
    assert recado("pub", "T1", "Price=30").code == 0
    assert recado("pub", '{"id": "whole", "type": "T1", "Price": 3}').records[0]["id"] == "whole"
    got = recado("sub", "Price < 25", "--type", "T1", "--durable", "cheap", "--count", "2")
    assert got.err.endswith("subscribed as cheap\n")
    assert got.code == 0
    assert [one["event"]["Price"] for one in got.records] == [24.9, 3]
    assert got.records[0]["position"] == position
    assert got.records[0]["queued"] is True
    assert recado("sub", "Price < 25", "--durable", "cheap", "--timeout", "0.05").out == "", "it was acknowledged"


def test_other_words_of_the_same_meaning(recado):
    """Live, with the log before it, and from the log alone."""
    recado("pub", '{"id": "e1", "type": "T0", "price": 60}')
    wanted = ("{sale price, GT, 50}", "--type", "T0", "--measure", "mean")
    got = recado("sub", *wanted, "--rename", "--from", "start", "--count", "1").records
    assert [one["event"]["sale price"] for one in got] == [60]
    assert recado("sub", *wanted, "--explain", "--durable", "d", "--timeout", "0.05").code == 3
    recado("pub", '{"id": "e2", "type": "T0", "price": 70}')
    [told] = recado("sub", *wanted, "--explain", "--durable", "d", "--count", "1").records
    assert told["why"]["pairs"][0]["attribute"] == "price"
    assert [one["event"]["id"] for one in recado("replay", *wanted).records] == ["e1", "e2"]
    assert recado("replay", *wanted[:3]).records == []
    assert "$.semantic.threshold" in recado("replay", *wanted, "--threshold", "7").err


def test_without_acknowledgement_it_stays(recado):
    recado("sub", "--type", "T2", "--durable", "s", "--timeout", "0.05")
    recado("pub", "T2", "n=1")
    for _ in range(2):
        got = recado("sub", "--type", "T2", "--durable", "s", "--no-ack", "--count", "1", "--format", "%{n} %q")
        assert got.out == "1 1\n"


def test_many_with_templates_and_a_format(recado):
    done = recado("pub", "T3", "n={{count}}", "x={{random 5 5}}", "u={{uuid}}", "t={{now}}", "--count", "20")
    assert [one["position"] for one in done.records] == list(
        range(done.records[0]["position"], done.records[0]["position"] + 20)
    )
    shown = recado("replay", "n > 17", "--type", "T3", "--format", r"%t\t%{n}\t%{x}\t%%")
    assert shown.out == "".join(f"T3\t{n}\t5\t%\n" for n in (18, 19, 20))
    first = recado("sub", "--type", "T3", "--from", "start", "--count", "3", "--format", "%{n}")
    assert first.out == "1\n2\n3\n"
    assert recado("sub", "--type", "T3", "--from", "1d", "--timeout", "2", "--format", "%p").out.count("\n") == 20


def test_a_rate(recado):
    begun = time.monotonic()
    assert recado("pub", "T4", "--count", "5", "--rate", "50").code == 0
    assert time.monotonic() - begun > 4 / 50


def test_lines_from_standard_input_and_a_file(recado, write):
    run = recado("pub", stdin='{"type": "T5", "n": 1}\n\n{"type": \n{"type": "T5", "n": 2}\n')
    assert run.code == 1
    assert len(run.records) == 2
    assert "<stdin>:3: $: the JSON text ends too early" in run.err
    path = write("events.ndjson", '{"type": "T5", "n": {{count}}}', '{"type": "T5", "n": "{{count}}"}')
    assert recado("pub", "--file", path, "--template").code == 0
    assert recado("pub", "--template", stdin='{"type": "{{nothing}}"}\n{"type": "other"}').err.startswith("<stdin>:1: ")
    batch = write("batch.json", '[{"type": "T5", "n": 7}]')
    assert recado("pub", "--file", batch).code == 0
    assert recado("replay", "--type", "T5", "--format", "%{n}").out.split() == ["1", "2", "1", "2", "7"]


def test_for_people(recado):
    run = recado("pub", "T6", "n=1", "evil=\x1b[31m", terminal=True)
    assert run.out == ""
    assert run.err == "published 1 event\n"
    shown = recado("replay", "--type", "T6", terminal=True).out
    assert "T6  n=1" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sub", "Price <"], "expected a value"),
        (["sub", "--format", "%z"], "no %z"),
        (["sub", "--from", "yesterday"], "is not a position"),
        (["pub", "T", "Price"], "is not name=value"),
        (["pub", "T", "n={{dice}}"], "there is no template {{dice}}"),
        (["pub", "--file", "/nowhere"], "/nowhere"),
        (["pub", "T", "--file", "/nowhere"], "given as 'T' and in /nowhere"),
        (["pub", "Price=3"], "write it first"),
        (["pub", '{"type": "T"}', "Price=3"], "'Price=3' has no place"),
        (["pub", "--count", "3"], "--count repeats an event of the arguments"),
        (["pub", "T", "--rate", "nan"], "greater than 0"),
        (["sub", "--durable", "a b"], "--durable 'a b' cannot be a name"),
        (["sub", "--user", "a b"], "recado: 'a b' cannot name a user"),
        (["sub", "--ttl", "nan"], "greater than 0"),
        (["sub", "--ttl", "-1"], "greater than 0"),
        (["sub", "--timeout", "inf"], "greater than 0"),
        (["subscription", "renew", "s", "--ttl", "inf"], "greater than 0"),
        (["subscription", "cancel"], "ID"),
        (["replay", "--limit", "0"], "--limit"),
        (["replay", "--from", "2026-13-01T00:00:00Z"], "is not a position"),
        (["replay", "--url", "mqtt://x"], "leads to no service"),
        (["subscription", "cancel", "nothing"], "nothing"),
        (["subscription", "renew", "nothing"], "nothing"),
        (["session", "end"], "nothing is known of user"),
        (["mailbox", "peek", "somebody-else"], "belongs to another user"),
        (["session", "ls", "--url", "recado+sip://a@x"], "uses HTTP"),
        (["pub", "T", "--context", "nowhere"], "no context 'nowhere'"),
    ],
)
def test_errors_say_what_would_be_right(recado, arguments, told):
    run = recado(*arguments)
    assert run.code in (1, 2)
    assert told in run.err + run.out


def test_a_span_back_beyond_all_time_begins_at_the_start():
    assert parse_start("999999999d") == parse_start("start") == (0, None)
    assert parse_start("1d")[0] is None


@pytest.mark.parametrize("verb", [["pub", "T"], ["sub"], ["replay"], ["session", "ls"], ["mailbox", "drain"]])
def test_no_service_runs(recado, verb):
    run = recado(*verb, "--url", "recado://127.0.0.1:9")
    assert run.code == 2
    assert "start one with: recado serve" in run.err


# -- looking and operating


def test_mailbox(recado, environment):
    recado("sub", "--type", "T7", "--durable", "s", "--timeout", "0.05")
    recado("pub", "T7", "n={{count}}", "--count", "5")
    (box,) = recado("mailbox", "ls").records
    assert (box["user"], box["length"]) == (environment, 5)
    assert environment[:10] in recado("mailbox", "ls", terminal=True).out
    assert [one["event"]["n"] for one in recado("mailbox", "peek", "--limit", "3").records] == [1, 2, 3]
    assert recado("mailbox", "peek", "--format", "%{n}").out.split() == ["1", "2", "3", "4", "5"]
    drained = recado("mailbox", "drain")
    assert [one["event"]["n"] for one in drained.records] == [1, 2, 3, 4, 5]
    assert "took 5 notifications" in drained.err
    assert "nothing waits" in recado("mailbox", "peek", terminal=True).err
    recado("pub", "T7", "n=6")
    assert "purged 1 notification" in recado("mailbox", "purge").err
    assert "GAP" in recado("mailbox", "drain").out


def test_subscription(recado):
    recado("sub", "Price < 25", "--durable", "cheap", "--ttl", "100", "--timeout", "0.05")
    (held,) = recado("subscription", "ls").records
    assert (held["id"], held["filter"]) == ("cheap", "Price < 25")
    assert "Price < 25" in recado("subscription", "ls", terminal=True).out
    assert recado("subscription", "renew", "cheap", "--ttl", "900").out.strip() > held["expires_at"]
    assert "cancelled 1 subscription" in recado("subscription", "cancel", "cheap").err
    assert recado("subscription", "ls").records == []
    assert "no subscriptions" in recado("subscription", "ls", terminal=True).out


def test_a_list_of_many_is_followed_page_by_page(recado, monkeypatch):
    monkeypatch.setattr("recado.server.listing.PAGE_BYTES", 500)  # the service is in this process
    names = sorted(f"many-{number}" for number in range(12))
    for name in names:
        assert recado("sub", "--durable", name, "--timeout", "0.01").code == 3
    assert [one["id"] for one in recado("subscription", "ls").records] == names
    assert [one["id"] for one in recado("subscription", "ls", "--prefix", "many-2").records] == [
        "many-2",
        *names[13:18],
    ]
    assert [one["id"] for one in recado("subscription", "ls", "--limit", "9").records] == names[:9]
    assert [one["device"] for one in recado("session", "ls", "--prefix", "none").records] == []
    assert all(name in recado("subscription", "ls", terminal=True).out for name in names)


def test_session(recado, environment):
    listening = subprocess.Popen(
        [RECADO, "sub", "--type", "T8", "--durable", "s"], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        deadline = time.monotonic() + 90
        while not (found := recado("session", "ls").records) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert [(one["user"], one["device"], one["connected"]) for one in found] == [(environment, "sub-s", True)]
        assert "websocket" in recado("session", "show", terminal=True).out
        recado("pub", "T8", "n=1")
        assert json.loads(listening.stdout.readline())["event"]["n"] == 1
        assert "ended 1 session" in recado("session", "end", "--device", "sub-s").err
        assert listening.wait(20) == 2, "it says that its session was ended"
    finally:
        listening.kill()
        listening.communicate()


def test_interrupted_and_in_a_pipe(recado, environment):
    """The real process: NDJSON into a pipe, Ctrl-C ends it and leaves no subscription behind."""
    listening = subprocess.Popen(
        [RECADO, "sub", "n >= 0", "--type", "T9", "--user", "watcher"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ,
    )
    deadline = time.monotonic() + 120
    while not recado("subscription", "ls", "--user", "watcher").records and time.monotonic() < deadline:
        time.sleep(0.1)
    pub = subprocess.run(
        [RECADO, "pub"], input='{"type":"T9","n":1}\n', capture_output=True, text=True, timeout=60, check=True
    )
    heard = json.loads(listening.stdout.readline())
    assert heard["event"]["n"] == 1
    assert heard["position"] == json.loads(pub.stdout)["position"]
    listening.send_signal(signal.SIGINT)
    assert listening.wait(120) == 130
    listening.communicate()
    assert recado("subscription", "ls", "--user", "watcher").records == []


def test_context(recado, service, monkeypatch):
    assert "no contexts" in recado("context", "ls", terminal=True).out
    assert recado("context", "add", "here", service.url.replace("//", "//ana@")).code == 0
    assert recado("context", "add", "far", "recado://ana:secret@far:1").code == 0
    rows = recado("context", "ls").records
    assert [(one["name"], one["selected"], one["token"]) for one in rows] == [
        ("here", True, False),
        ("far", False, True),
    ]
    shown = recado("context", "ls", terminal=True).out
    assert "secret" not in shown
    assert "*  here" in shown
    monkeypatch.delenv("RECADO_URL")
    assert recado("pub", "T10").code == 0
    assert recado("context", "select", "far").code == 0
    assert [one["name"] for one in recado("context", "ls").records if one["selected"]] == ["far"]
    assert recado("pub", "T10", "--context", "here").code == 0
    assert recado("context", "rm", "far").code == 0
    assert recado("context", "rm", "far").code == 2
    assert recado("context", "select", "far").code == 2
    assert recado("context", "add", "bad", "nowhere").code == 2
    assert recado("context", "add", "a b", "recado://h").code == 2
    file = contexts_path()
    file.with_suffix(".new").write_text("left by a crash")
    assert recado("context", "add", "other", "recado://ana:secret@h").code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text('{"urls": {"wrong": "x"}}')
    assert "context 'wrong': 'x' is not a URL" in recado("context", "ls").err
    file.write_text("{")
    assert "mend the file, or remove it" in recado("pub", "T10").err


# -- small parts


def test_templates():
    assert expand("{{count}}-{{ Count }}", 7) == "7-7"
    assert int(expand("{{random -3 3}}", 1)) in range(-3, 4)
    assert expand("{plain} {{", 1) == "{plain} {{"
    with pytest.raises(RecadoError, match="random"):
        expand("{{random 5 1}}", 1)
    assert members("T", ("a=1", "b=x=y", "c="), 1) == {"type": "T", "a": 1, "b": "x=y", "c": ""}
    assert [scalar(one) for one in ("1", "1.5", "true", '"1"', "null", "1,2", "[1]")] == [
        1, 1.5, True, "1", "null", "1,2", [1],
    ]  # fmt: skip


def test_formats():
    row = {"nid": 5 * 2**20 + 1, "sub_id": "s", "generated_at": "now", "event": {"id": "e", "type": "T", "a": [1]}}
    text = "".join(piece(row) for piece in compile_format(r"%t %i %s %n %p %S %g %q %{a} %{b} %j \q \\"))
    assert text == r'T e  5242881 5 s now 0 [1]  {"id":"e","type":"T","a":[1]} \q ' + "\\"
    assert readable_line({**row, "queued": True}) == "       5  T  a=[1]  [e]  (waited)"
