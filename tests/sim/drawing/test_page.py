"""The page: what is in it, that nothing in a run can become markup, and what a browser makes of it."""

import json
import re
import shutil
import struct
import subprocess
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest

from recado.sim.drawing.page import draw_page, embed, page_data, place_nodes
from recado.sim.recording import (
    ClassTotal,
    Delivered,
    Header,
    LinkLine,
    NodeLine,
    Published,
    Recording,
    Role,
    Sent,
    Subscribed,
    Up,
)
from recado.sim.runs.run import record
from recado.sim.runs.scenario import parse_scenario

EVIL = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\u2028\u2029&quot;'\"`${}{{title}}"

TREES = """
name = "Trees"
[topology]
nodes = 20
[workload]
operations = 15
subscriptions = 5
mix = { publish = 4, unsubscribe = 1 }
"""

SUPER_NODES = """
protocol = "super-nodes"
[topology]
kind = "star"
nodes = 10
[workload]
subscriptions = 10
operations = 3
"""

SENSORS = """
protocol = "sensor-network"
[topology]
nodes = 25
[network]
kind = "radio"
[radio]
side = 500.0
placement = "connected"
[workload]
subscriptions = 5
publishers = 5
operations = 5
rate = 0.1
"""


class Scripts(HTMLParser):
    """The scripts and elements that a browser finds."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self._inside = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("script", "style"):
            self._inside = [dict(attrs), ""]
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)
        if tag == "meta" and dict(attrs).get("http-equiv"):
            self.policy = dict(attrs)["content"]

    def handle_data(self, data):
        if self._inside is not None:
            self._inside[1] += data

    def handle_endtag(self, tag):
        if tag in ("script", "style") and self._inside is not None:
            self.scripts.append((tag, *self._inside))
            self._inside = None


def recorded(text=TREES):
    return record(parse_scenario(text).runs()[0])


def hostile():
    """A recording in which every text is an attack."""
    return Recording(
        Header(
            1, EVIL, protocol=EVIL, end=3.0, totals={EVIL: ClassTotal(1, 1)}, deliveries=1, notes=(EVIL,), unit=EVIL
        ),
        (
            NodeLine(EVIL),
            NodeLine("b"),
            Up(0.0, EVIL),
            Up(0.0, "b"),
            LinkLine(0.0, EVIL, "b"),
            Role(0.0, "b", EVIL),
            Subscribed(0.5, "b", EVIL, EVIL),
            Published(1.0, EVIL, EVIL, EVIL),
            Sent(1.0, EVIL, EVIL, EVIL, 1, "b", 1, EVIL, EVIL, "", 2.0, 1, ("b",)),
            Delivered(2.0, "b", EVIL),
        ),
    )


def test_the_arrays_say_what_the_recording_says():
    recording = recorded()
    data = page_data(recording)
    sent = list(recording.of(Sent))
    times = struct.unpack(f"<{len(sent)}d", b64decode(data["sent"]["t"]))
    senders = struct.unpack(f"<{len(sent)}i", b64decode(data["sent"]["node"]))
    assert list(times) == [line.t for line in sent] == sorted(times)
    assert [data["nodes"][number] for number in senders] == [line.node for line in sent]
    assert {name: count for name, count, _, _ in data["classes"]} == {
        name: total.count for name, total in recording.header.totals.items()
    }


def test_the_same_recording_gives_the_same_page():
    assert draw_page(recorded()) == draw_page(recorded())


def test_places_of_a_radio_are_kept_and_others_are_arranged():
    sensors = recorded(SENSORS)
    assert place_nodes(sensors) == {line.name: (line.x, line.y) for line in sensors.of(NodeLine)}
    assert all(0 <= x <= 1 and 0 <= y <= 1 for x, y in place_nodes(recorded(SUPER_NODES)).values())


def test_nothing_in_a_run_becomes_markup():
    page = draw_page(hostile())
    found = Scripts(page)
    assert found.tags.count("script") == 2
    assert "img" not in found.tags
    assert "onerror=alert(2)>" not in page.replace("onerror=alert(2)&gt;", "")
    assert "\u2028" not in page.split('id="data">')[1].split("</script>")[0]
    (block,) = [text for tag, attrs, text in found.scripts if attrs.get("type") == "application/json"]
    assert json.loads(block)["nodes"] == [EVIL, "b"]


def test_what_is_embedded_is_the_same_when_read():
    assert json.loads(embed({"text": EVIL})) == {"text": EVIL}
    assert not set("<>&\u2028\u2029") & set(embed(EVIL))


def test_the_policy_lets_only_the_pages_own_script_and_style_in():
    found = Scripts(draw_page(recorded()))
    for tag, attrs, text in found.scripts:
        if attrs.get("type") != "application/json":
            digest = sha256(text.encode()).digest()
            allowed = "script-src" if tag == "script" else "style-src"
            assert f"{allowed} 'sha256-{b64encode(digest).decode()}'" in found.policy
    assert found.policy.startswith("default-src 'none'")
    assert "unsafe" not in found.policy


def test_the_page_asks_the_network_for_nothing():
    page = draw_page(recorded())
    addresses = set(re.findall(r"""(?:https?:)?//[\w.]+\.\w+[^\s"'<]*""", page.split('id="data">')[0]))
    assert not addresses
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\s*\(|innerHTML|insertAdjacentHTML|eval\(", page)


# --- In a browser ----------------------------------------------------------------------------------------------------

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium here; install it to see the page drawn")


def opened(path, fragment, *options):
    """The document as the browser has it once all scripts have run, and what it said on its console."""
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--enable-logging=stderr", "--dump-dom",
        "--virtual-time-budget=2000", f"--user-data-dir={path.parent / 'profile'}", *options,
        f"file://{path}#{fragment}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, console


def counters(document):
    """The table beside the picture."""
    rows = re.findall(r'<tr data-class="([^"]*)".*?<td class="sent">([\d,]+)</td>', document)
    return {name: int(count.replace(",", "")) for name, count in rows}


@needs_browser
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TREES, id="trees"),
        pytest.param(SENSORS, id="sensors"),
        pytest.param(SUPER_NODES, id="super-nodes", marks=pytest.mark.long),
    ],
)
def test_the_counters_at_the_end_are_those_of_the_run(tmp_path, text):
    recording = recorded(text)
    path = tmp_path / "run.html"
    path.write_text(draw_page(recording), encoding="utf-8")
    document, console = opened(path, "t=end")
    assert console == []
    assert 'data-ready="yes"' in document
    found = counters(document)
    assert found.pop("all") == sum(total.count for total in recording.header.totals.values())
    assert found == {name: total.count for name, total in recording.header.totals.items()}
    assert f'data-delivered="{recording.header.deliveries}"' in document


@needs_browser
def test_the_counters_at_a_time_are_what_was_sent_until_then(tmp_path):
    recording = recorded()
    path = tmp_path / "run.html"
    path.write_text(draw_page(recording), encoding="utf-8")
    time = list(recording.of(Sent))[len(list(recording.of(Sent))) // 2].t
    event = next(recording.of(Published)).id
    document, console = opened(path, f"publication={event}&subscription=s1&node=3&theme=dark&t={time}")
    assert console == []
    found = counters(document)
    expected = {name: sum(1 for line in recording.of(Sent) if line.t <= time and line.traffic_class == name)
                for name in recording.header.totals}  # fmt: skip
    assert found == {**expected, "all": sum(expected.values())}
    assert 'data-theme="dark"' in document


@needs_browser
def test_a_hostile_run_is_shown_and_not_run(tmp_path):
    path = tmp_path / "run.html"
    path.write_text(draw_page(hostile()), encoding="utf-8")
    document, console = opened(path, "t=end&publication=x")
    assert console == []
    assert 'data-ready="yes"' in document
    assert document.count("<script") == 2
    assert "<img" not in document
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in document  # as text


@needs_browser
@pytest.mark.long
def test_a_thinned_run_counts_all_and_says_what_is_missing(tmp_path):
    recording = record(parse_scenario(TREES).runs()[0], limit=50)
    path = tmp_path / "run.html"
    path.write_text(draw_page(recording), encoding="utf-8")
    document, console = opened(path, "t=end")
    assert console == []
    assert counters(document)["all"] == sum(total.count for total in recording.header.totals.values())
    assert "transmissions was kept; counters count all" in document


@needs_browser
@pytest.mark.parametrize("size", ["360,700", pytest.param("1400,900", marks=pytest.mark.long)])
def test_it_plays(tmp_path, size):
    path = tmp_path / "run.html"
    path.write_text(draw_page(recorded()), encoding="utf-8")
    document, console = opened(path, "play", f"--window-size={size}")
    assert console == []
    assert counters(document)["all"] > 0  # two seconds have passed
