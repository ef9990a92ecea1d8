"""``recado top``: what a service is doing now, from its own ``/metrics``, ``/v1/status`` and ``/v1/lag``.

Two samples make a view: rates and latencies are of the time between them. A counter that has become smaller began anew
with the service, so it counts from 0.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from recado.cli.flags import ServiceFlags
from recado.cli.output import console, for_people, write_json
from recado.cli.verb import verb

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from recado.client.http import HttpClient

_HELP = """\
  recado top
  recado top --once --json
  recado top --interval 10 | tee top.ndjson

Where callers need tokens this takes an administrator's; a service that is open on loopback shows it to anybody there.
In a pipe it writes one JSON object for each interval. Ctrl-C ends it.
"""

app = verb("top", epilogue=_HELP)

RATES = {
    "published": "recado_published_total",
    "refused": "recado_refused_total",
    "matched": "recado_matched_total",
    "notified": "recado_notified_total",
    "acknowledged": "recado_acknowledged_total",
    "redelivered": "recado_redelivered_total",
    "dropped": "recado_dropped_total",
    "requests": "recado_http_requests_total",
}
"""What is shown a second, and the counter that it comes from; over all labels."""
LATENCIES = {
    "publish": "recado_publish_seconds",
    "commit": "recado_commit_seconds",
    "match": "recado_match_seconds",
    "turn": "recado_turn_seconds",
    "delivery": "recado_delivery_seconds",
    "webhook": "recado_webhook_seconds",
}
FIGURES = {
    "subscriptions": "recado_subscriptions",
    "users": "recado_users",
    "sessions": "recado_sessions",
    "connections": "recado_connections",
    "in_flight": "recado_in_flight_notifications",
    "waiting": "recado_waiting_notifications",
    "waiting_bytes": "recado_waiting_bytes",
    "memory_bytes": "process_resident_memory_bytes",
}
_LINE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Metrics = dict[str, list[tuple[dict[str, str], float]]]
View = dict[str, Any]


class Sample(msgspec.Struct, frozen=True):
    """What the service said at one moment; ``at`` is of a clock that does not go back."""

    at: float
    metrics: Metrics
    trouble: list[str]
    slowest: list[dict[str, Any]]


@app.default
def top(
    *,
    interval: Annotated[float, Parameter(name=("--interval", "-i"), validator=Number(gte=0.1, lte=3600))] = 2.0,
    slowest: Annotated[int, Parameter(validator=Number(gte=0, lte=100))] = 10,
    once: bool = False,
    json: bool = False,
    where: ServiceFlags = ServiceFlags(),  # noqa: B008  # frozen, made once
) -> int:
    """Watch a service: rates, latencies, lag, the slowest consumers, trouble.

    Parameters
    ----------
    interval
        Seconds between two looks at the service; rates are of that time.
    slowest
        How many mailboxes in which something waits for longest.
    once
        Show one interval, and end.
    json
        Write NDJSON even on a terminal.
    """
    with where.http() as http:
        views = look(http, interval, slowest, once=once)
        if not for_people(json):
            for view in views:
                write_json(view)
                sys.stdout.flush()
        elif once:
            console().print(draw(next(views)))
        else:
            _watch(views)
    return 0


def _watch(views: Iterator[View]) -> None:
    from rich.live import Live

    try:
        with Live("asking the service ...", console=console(), screen=True, auto_refresh=False) as live:
            for view in views:
                live.update(draw(view), refresh=True)
    except KeyboardInterrupt:
        return  # that is how it ends


def look(http: HttpClient, interval: float, slowest: int, *, once: bool) -> Iterator[View]:
    """A view for each interval. A service that does not answer is an error at first, and later a view that says so."""
    from recado.client.errors import ClientError, NotAllowed

    before = take_sample(http, slowest)
    while True:
        time.sleep(interval)
        try:
            after = take_sample(http, slowest)
        except ClientError as error:
            if once or isinstance(error, NotAllowed):
                raise
            yield {"at": _now(), "ready": False, "trouble": [str(error)]}
            continue
        yield make_view(before, after)
        if once:
            return
        before = after


def take_sample(http: HttpClient, slowest: int) -> Sample:
    from recado.client.errors import NotAllowed

    metrics = read_metrics(http.text("/metrics"))
    trouble = http.call("GET", "/v1/status")["trouble"]
    found: list[dict[str, Any]] = []
    if slowest:
        try:
            found = http.call("GET", "/v1/lag", query={"user": "*", "limit": slowest})["slowest"]
        except NotAllowed:
            found = http.call("GET", "/v1/lag", query={"limit": slowest})["slowest"]
    return Sample(time.monotonic(), metrics, trouble, found)


def _now() -> str:
    from datetime import UTC, datetime

    from recado.model.values import format_time

    return format_time(datetime.now(UTC))


# --- figures ---------------------------------------------------------------------------------------------------------


def read_metrics(text: str) -> Metrics:
    """The samples of an exposition by name, each with its labels."""
    found: Metrics = {}
    for line in text.splitlines():
        if line.startswith("#") or (parts := _LINE.fullmatch(line)) is None:
            continue
        labels = dict(_LABEL.findall(parts[2] or ""))
        found.setdefault(parts[1], []).append((labels, float(parts[3])))
    return found


def make_view(before: Sample, after: Sample) -> View:
    """What is shown of the time between two samples."""
    old, new = before.metrics, after.metrics
    seconds = max(after.at - before.at, 1e-9)
    build = new.get("recado_build_info", [({}, 1.0)])[0][0]
    ages = {labels["class"]: value for labels, value in new.get("recado_mailbox_lag_seconds", [])}
    counts = {labels["class"]: int(value) for labels, value in new.get("recado_mailbox_notifications", [])}
    return {
        "at": _now(),
        "version": build.get("version", ""),
        "ready": bool(_total(new, "recado_ready")),
        "trouble": after.trouble,
        "seconds": round(seconds, 3),
        "rates": {name: round(_grow(old, new, metric) / seconds, 3) for name, metric in RATES.items()},
        "latencies": {name: _latency(old, new, metric) for name, metric in LATENCIES.items()},
        "lag": {name: {"notifications": counts.get(name, 0), "seconds": round(age, 3)} for name, age in ages.items()},
        "to_match": int(_total(new, "recado_end_position") - _total(new, "recado_dispatched_position")),
        **{name: int(_total(new, metric)) for name, metric in FIGURES.items()},
        "cpu": round(_grow(old, new, "process_cpu_seconds_total") / seconds, 3),
        "slowest": after.slowest,
    }


def _total(metrics: Metrics, name: str) -> float:
    return sum(value for _, value in metrics.get(name, []))


def _grow(old: Metrics, new: Metrics, name: str) -> float:
    before, after = _total(old, name), _total(new, name)
    return after - before if after >= before else after


def _latency(old: Metrics, new: Metrics, name: str) -> dict[str, float] | None:
    """Quantiles of what was measured between two samples; None if nothing was."""
    before = {labels["le"]: value for labels, value in old.get(f"{name}_bucket", [])}
    after = {labels["le"]: value for labels, value in new.get(f"{name}_bucket", [])}
    if after.get("+Inf", 0.0) < before.get("+Inf", 0.0):
        before = {}
    buckets = [(float(bound), value - before.get(bound, 0.0)) for bound, value in after.items()]
    if not buckets or not buckets[-1][1]:
        return None
    return {"p50": quantile(buckets, 0.5), "p99": quantile(buckets, 0.99), "count": buckets[-1][1]}


def quantile(buckets: list[tuple[float, float]], share: float) -> float:
    """Of cumulative counts by upper bound, as Prometheus estimates it: evenly spread within a bucket."""
    wanted = share * buckets[-1][1]
    bound_before = count_before = 0.0
    for bound, count in buckets:
        if count >= wanted:
            if bound == float("inf"):
                return bound_before
            within = (wanted - count_before) / (count - count_before) if count > count_before else 1.0
            return round(bound_before + (bound - bound_before) * within, 9)
        bound_before, count_before = bound, count
    return bound_before


# --- for people ------------------------------------------------------------------------------------------------------


def draw(view: View) -> RenderableType:
    """A view as lines and tables; of a terminal that is too low, the end is cut off."""
    from rich.columns import Columns
    from rich.console import Group
    from rich.text import Text

    ready = view["ready"]
    head = Text.assemble(
        "recado ", (view.get("version", ""), "bold"), "  ",
        ("ready" if ready else "not ready", "green" if ready else "bold red"), f"  {view['at']}",
    )  # fmt: skip
    trouble = [Text(_plain(sentence), "bold red") for sentence in view["trouble"]]
    if "rates" not in view:
        return Group(head, *trouble)
    figures = (
        f"subscriptions {view['subscriptions']:,}  users {view['users']:,}  sessions {view['sessions']:,}  "
        f"connections {view['connections']:,}  to match {view['to_match']:,}  in flight {view['in_flight']:,}  "
        f"cpu {view['cpu']:.0%}  memory {view['memory_bytes'] / 2**20:,.0f} MiB"
    )
    tables = Columns([_rates(view), _latencies(view), _lag(view)], padding=(0, 4))
    return Group(head, *trouble, Text(figures), Text(), tables, Text(), _slowest(view["slowest"]))


def _table(*columns: str) -> Table:
    """The first column is text, the others are figures."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _rates(view: View) -> Table:
    table = _table("", "a second")
    for name, rate in view["rates"].items():
        table.add_row(name, f"{rate:,.1f}" if rate < 1_000 else f"{rate:,.0f}")
    return table


def _latencies(view: View) -> Table:
    table = _table("", "p50", "p99")
    for name, found in view["latencies"].items():
        table.add_row(name, *("-", "-") if found is None else (_span(found["p50"]), _span(found["p99"])))
    return table


def _lag(view: View) -> Table:
    table = _table("mailboxes", "wait", "lag")
    for name, found in view["lag"].items():
        table.add_row(name, f"{found['notifications']:,}", _span(found["seconds"]))
    table.add_row(
        "all", f"{view['waiting']:,}", _span(max((one["seconds"] for one in view["lag"].values()), default=0))
    )
    return table


def _slowest(mailboxes: list[dict[str, Any]]) -> RenderableType:
    if not mailboxes:
        return "nothing waits"
    table = _table("slowest mailboxes", "wait", "lag", "in flight", "window", "redelivered", "read by")
    table.columns[-1].justify = "left"
    for one in mailboxes:
        name = f"{one['user']} / {one['device']}" if one["device"] else one["user"]
        readers = one["consumers"]
        sums = [f"{sum(reader[part] for reader in readers):,}" for part in ("in_flight", "window", "redelivered")]
        kinds = ", ".join(sorted({reader["kind"] for reader in readers})) or "nobody"
        cells = sums if readers else ["-", "-", "-"]
        table.add_row(_plain(name), f"{one['length']:,}", _span(one["lag_seconds"]), *cells, kinds)
    return table


def _span(seconds: float) -> str:
    """A duration with the unit that fits."""
    if not seconds:
        return "0"
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s"), (7_200.0, 1 / 60, "min")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"


def _plain(text: str) -> str:
    """Nothing in it moves the cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
