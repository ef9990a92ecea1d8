"""``recado top``: its figures, its lines in a pipe, its view on a terminal, and what it does without the service."""

import json
import os
import pty
import re
import select
import sys
import time

import httpx
import pytest

from cli.test_service_verbs import environment, service  # noqa: F401  # fixtures
from recado.cli.top import FIGURES, LATENCIES, RATES, Sample, draw, look, make_view, quantile, read_metrics
from recado.client.errors import Unreachable
from recado.server.metrics import Metrics, exposition


def sample(at, metrics, states=None, lags=None, trouble=()):
    text = exposition(metrics, states or {}, {"log": ""}, lags).decode()
    return Sample(at, read_metrics(text), list(trouble), [])


def test_every_metric_that_is_shown_exists(tmp_path):
    from server.running import http, run, serving

    async def fetch():
        async with serving(tmp_path) as server, http(server) as client:
            return (await client.get("/metrics")).text

    found = read_metrics(run(fetch()))
    labelled = {"recado_refused_total", "recado_dropped_total", "recado_http_requests_total"}  # none before the first
    assert {*RATES.values(), *FIGURES.values()} - labelled <= set(found)
    assert {f"{name}_bucket" for name in LATENCIES.values()} <= set(found)
    assert {"recado_mailbox_lag_seconds", "recado_mailbox_notifications", "recado_build_info"} <= set(found)


def test_rates_and_latencies_are_of_the_time_between_two_samples():
    metrics = Metrics()
    metrics.published = 100
    metrics.by["dropped"]["full"] = 5
    metrics.publish_seconds.observe(5.0, 1_000)
    before = sample(10.0, metrics)
    metrics.published += 50
    metrics.by["dropped"]["age"] = 5
    metrics.publish_seconds.observe(0.004, 100)
    view = make_view(before, sample(12.0, metrics, {"ready": 1.0, "end": 9.0, "dispatched": 4.0}, {"away": (3, 7.5)}))
    assert (view["rates"]["published"], view["rates"]["dropped"], view["seconds"]) == (25.0, 2.5, 2.0)
    assert 0.0025 < view["latencies"]["publish"]["p50"] <= view["latencies"]["publish"]["p99"] <= 0.005
    assert view["latencies"]["commit"] is None
    assert (view["ready"], view["to_match"], view["lag"]) == (True, 5, {"away": {"notifications": 3, "seconds": 7.5}})
    json.dumps(view)


def test_a_service_that_was_started_again_counts_from_the_beginning():
    old, new = Metrics(), Metrics()
    old.published, new.published = 1_000, 30
    old.commit_seconds.observe(0.1, 1_000)
    new.commit_seconds.observe(0.001, 3)
    view = make_view(sample(0.0, old), sample(10.0, new))
    assert view["rates"]["published"] == 3.0
    assert view["latencies"]["commit"]["count"] == 3


def test_quantiles_are_spread_within_a_bucket():
    buckets = [(1.0, 10.0), (2.0, 20.0), (float("inf"), 20.0)]
    assert [quantile(buckets, share) for share in (0.25, 0.5, 0.75, 1.0)] == [0.5, 1.0, 1.5, 2.0]
    assert quantile([(1.0, 0.0), (float("inf"), 4.0)], 0.5) == 1.0


def test_labels_with_any_character_are_read():
    found = read_metrics('a_total{reason="odd \\"}{, x",b="2"} 3\n# HELP a\nb 1e-05\n')
    assert found == {"a_total": [({"reason": 'odd \\"}{, x', "b": "2"}, 3.0)], "b": [({}, 1e-05)]}


@pytest.mark.usefixtures("environment")
def test_a_line_in_a_pipe_and_a_view_on_a_terminal(recado):
    assert recado("sub", "--type", "Top", "--durable", "t", "--timeout", "0.01").code == 3
    assert recado("pub", "Top", "Price=1").code == 0
    (view,) = recado("top", "--once", "--interval", "0.1").records
    assert (view["ready"], view["trouble"], view["lag"]["away"]["notifications"] >= 1) == (True, [], True)
    assert [one["length"] for one in view["slowest"]] == [1]
    shown = recado("top", "--once", "--interval", "0.1", "--slowest", "0", terminal=True).out
    assert all(word in shown for word in ("ready", "published", "p99", "connected", "nothing waits"))
    assert recado("top", "--interval", "0").code == 2


def test_a_service_that_does_not_answer_is_an_error_at_first_and_a_view_later(recado):
    done = recado("top", "--once", "--url", "recado://ana@127.0.0.1:9")
    assert done.code == 2
    assert "no event service" in done.err

    class Service:
        """Answers once."""

        asked = 0

        def text(self, path):
            self.asked += 1
            if self.asked > 1:
                raise Unreachable("gone")
            return exposition(Metrics(), {}, {}).decode()

        def call(self, method, path, query=None):
            return {"trouble": [], "slowest": []}

    views = look(Service(), 0.01, 3, once=False)
    assert [next(views)["trouble"] for _ in range(2)] == [["gone"], ["gone"]]
    with pytest.raises(Unreachable):
        next(look(Service(), 0.01, 3, once=True))


def test_nothing_that_users_choose_moves_the_cursor(capsys):
    from recado.cli.output import console

    consumer = {"device": "d", "kind": "poll", "window": 9, "in_flight": 3, "redelivered": 2}
    mailbox = {"user": "a\x1b[2J[red]", "device": "d", "length": 3, "lag_seconds": 90_000.0, "consumers": [consumer]}
    view = make_view(sample(0.0, Metrics()), sample(1.0, Metrics(), trouble=["bad\x1b[2J"]))
    console().print(draw({**view, "slowest": [mailbox]}))
    shown = capsys.readouterr().out
    assert "\x1b[2J" not in shown
    assert "[red] / d" in shown
    assert "25.0 h" in shown


@pytest.mark.usefixtures("environment")
def test_in_a_terminal_it_draws_and_ends_with_control_c(service):  # noqa: F811  # the fixture
    httpx.get(service.url + "/healthz", trust_env=False)
    pid, terminal = pty.fork()
    if not pid:
        os.environ.update(TERM="xterm", COLUMNS="100", LINES="30")
        run = "import sys; from recado.cli.app import main; sys.exit(main(['top', '--interval', '0.2']))"
        os.execv(sys.executable, [sys.executable, "-c", run])
    shown, stopped, deadline = b"", False, time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                part = os.read(terminal, 65_536)
            except OSError:
                break
            shown += part
        if not stopped and shown.count(b"published") >= 2:
            os.write(terminal, b"\x03")
            stopped = True
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    text = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode()
    assert all(word in text for word in ("ready", "acknowledged", "delivery", "mailboxes"))
    assert shown.startswith(b"\x1b[?1049h")  # a screen of its own, which is given back
    assert shown.rstrip().endswith(b"\x1b[?1049l")
