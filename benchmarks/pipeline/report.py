"""What the benchmark of the pipeline finds out: records, tables, the picture of growth, targets. Needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks.harness import Grid, Rate, Record, Step, Target, at_least, cell, number, of_kind, table

RECADO = "recado"
LOOP_JOIN = "nested-loop join"
HASH_JOIN = "hash join"
RULES = "Python rules"

READ = "read"
SENT = "and sent to Python"
EXCHANGE = "and notifications back, ready made"
WHOLE = "the whole job"
PLAIN = "plain process"
PACKED = "packed"
SPARKS_READER, OWN_READER = "Spark's reader", "row groups by workers"
ROWS_BEFORE = "rows from Python, as before"
SINGLE, PARTITIONED = "one index", "partitions"
MILLION = 1_000_000

# --- records ----------------------------------------------------------------------------------------------------------


class Side(Record, frozen=True, tag="side"):
    """One way of matching on Spark, on one workload. ``checked`` pairs were the same on all sides before."""

    workload: str
    subscriptions: int
    side: str
    cores: int
    checked: int
    events: int
    rate: Rate


class Kernel(Record, frozen=True, tag="kernel"):
    """Through Spark on ``cores``, next to the same work in a plain process.

    ``pairs`` is the batch matcher alone on one core, with its batches in memory. ``alone`` is the same job as on Spark,
    in one plain process: from Parquet to notifications in Arrow. ``together`` is the sum of as many such processes at
    once as there are cores: what the machine itself allows. ``form`` is how rows are events: typed columns, or JSON.
    """

    workload: str
    subscriptions: int
    cores: int
    events: int
    notifications_per_event: float
    pairs: Rate
    alone: Rate
    together: Rate
    spark: Rate
    form: str = "columns"

    @property
    def title(self) -> str:
        return f"{self.workload} {self.subscriptions:,}, {self.form}"

    @property
    def share(self) -> float:
        """Of ``cores`` times the matcher alone."""
        return self.spark.best / (self.cores * self.alone.best)

    @property
    def share_of_machine(self) -> float:
        """Of what plain processes reach on all cores at once."""
        return self.spark.best / self.together.best


class Outcome(Record, frozen=True, tag="outcome"):
    """A kind of output, read in one of two ways, next to the same job in a plain process by turns; all an event."""

    workload: str
    subscriptions: int
    form: str
    output: str
    reader: str
    cores: int
    events: int
    bare_seconds: float
    bare_cpu_seconds: float
    seconds: float
    jvm_seconds: float
    python_seconds: float

    @property
    def title(self) -> str:
        return f"{self.workload} {self.subscriptions:,}, {self.form}"

    @property
    def share(self) -> float:
        """Of ``cores`` times the plain process, by the clock."""
        return self.bare_seconds / (self.cores * self.seconds)

    @property
    def cpu_share(self) -> float:
        """Of the CPU time that the job takes on Spark, what the plain process needs."""
        return self.bare_cpu_seconds / (self.jvm_seconds + self.python_seconds)


class Cost(Record, frozen=True, tag="cost"):
    """What a step of the job costs with all steps before it; CPU seconds an event, of JVM and Python processes."""

    workload: str
    subscriptions: int
    form: str
    step: str
    events: int
    rate: Rate
    jvm_seconds: float
    python_seconds: float

    @property
    def title(self) -> str:
        return f"{self.workload} {self.subscriptions:,}, {self.form}"


class Growth(Record, frozen=True, tag="growth"):
    """One point of the growth curve: a whole job, from files of events to notifications."""

    cores: int
    subscriptions: int
    events: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.events / self.seconds


class Loading(Record, frozen=True, tag="loading"):
    """How the largest index reached the workers in the jobs of a growth curve, and what it cost them.

    ``loads`` counts all sets that the workers opened, ``most_loads`` those of one worker; ``sets`` were in use. The
    bytes are of all workers together: what they hold for themselves, and what is in memory of the mapped index, each
    page counted once for each worker (``mapped``) and once at all (``mapped_once``).
    """

    cores: int
    subscriptions: int
    tasks: int
    workers: int
    sets: int
    loads: int
    most_loads: int
    seconds_per_load: float
    file_bytes: int
    private_bytes: int
    mapped_bytes: int
    mapped_once_bytes: int


class State(Record, frozen=True, tag="state"):
    """Delivery constraints on a stream; rates and seconds are of the micro-batches after the first."""

    cores: int
    keys: int
    batches: int
    notifications: int
    delivered: int
    rate: float
    first_batch_seconds: float
    batch_seconds: float
    state_rows: int
    memory_bytes: int
    disk_bytes: int


class StateWay(Record, frozen=True, tag="way"):
    """One way to keep the state of constraints; seconds are of the middle micro-batch after the first.

    CPU seconds are those of the JVM and of all Python workers. All ways let the same notifications through.
    """

    way: str
    buckets: int
    cores: int
    notifications: int
    cpu_seconds: float
    seconds: float
    delivered: int
    keys: int
    disk_bytes: int

    @property
    def rate(self) -> float:
        return self.notifications / self.cpu_seconds


class Partitioning(Record, frozen=True, tag="partitioning"):
    """One index against partitions: ``own`` bytes are of the largest worker's, ``mapped`` counts what workers share.

    ``visits`` is how many partitions an event visits in the mean; CPU seconds are of the JVM and all workers.
    """

    workload: str
    subscriptions: int
    way: str
    events: int
    build_cpu_seconds: float
    file_bytes: int
    mapped_bytes: int
    own_bytes: int
    visits: float
    seconds: float
    cpu_seconds: float
    notifications: int


AnyRecord = Step | Side | Kernel | Outcome | Cost | Growth | Loading | State | StateWay | Partitioning
"""What a child process may tell."""

# --- tables -----------------------------------------------------------------------------------------------------------


def _compared(records: Sequence[Record]) -> Grid:
    def ratio(side: Side) -> str:
        if side.side == RECADO:
            theirs = better_rate(records, side.workload, side.subscriptions)
            return "" if theirs is None else f"{number(side.rate.best / theirs)} x the better one"
        mine = [r for r in _sides(records, side.workload, side.subscriptions) if r.side == RECADO]
        return f"{number(mine[0].rate.best / side.rate.best)} x" if mine else ""

    columns: Mapping[str, Callable[[Side], object]] = {
        "workload": lambda r: f"{r.workload} {r.subscriptions:,}",
        "side": lambda r: r.side,
        "cores": lambda r: r.cores,
        "events in a run": lambda r: r.events,
        "events/s": lambda r: r.rate,
        "recado": ratio,
        "pairs checked": lambda r: r.checked,
    }
    return table("Against what a Spark user would write", Side, columns, words=2)(records)


def _growth(records: Sequence[Record]) -> Grid:
    """A row for each pair of sizes; the number of cores goes across."""
    points = sorted(of_kind(records, Growth), key=lambda r: (r.subscriptions, r.events, r.cores))
    cores = sorted({point.cores for point in points})
    heads = ["subscriptions", "events"]
    for count in cores:
        name = "1 core" if count == 1 else f"{count} cores"
        heads += [f"s on {name}", f"events/s on {name}"]
    rows = []
    for (size, events), group in groupby(points, lambda r: (r.subscriptions, r.events)):
        by_cores = {point.cores: point for point in group}
        found = [by_cores.get(count) for count in cores]
        cells = [text for one in found for text in ((cell(one.seconds), cell(one.rate)) if one else ("", ""))]
        rows.append((f"{size:,}", f"{events:,}", *cells))
    return Grid(title="Growth", heads=heads, rows=rows)


def _ways(records: Sequence[Record]) -> Grid:
    packed = [r.rate for r in of_kind(records, StateWay) if r.way == PACKED]
    columns: Mapping[str, Callable[[StateWay], object]] = {
        "way": lambda r: r.way,
        "buckets": lambda r: r.buckets or None,
        "CPU s a micro-batch": lambda r: f"{r.cpu_seconds:.1f}",
        "notifications/CPU s": lambda r: r.rate,
        "packed is x": lambda r: packed[0] / r.rate if packed else None,
        "seconds a micro-batch": lambda r: f"{r.seconds:.1f}",
        "let through": lambda r: r.delivered,
        "state keys": lambda r: r.keys,
        "state on disk, MB": lambda r: r.disk_bytes / 1e6,
    }
    return table("Ways to keep the state of constraints", StateWay, columns)(records)


def _partitionings(records: Sequence[Record]) -> Grid:
    single = {
        (r.workload, r.subscriptions): r.events / r.cpu_seconds
        for r in of_kind(records, Partitioning)
        if r.way == SINGLE
    }
    columns: Mapping[str, Callable[[Partitioning], object]] = {
        "subscriptions": lambda r: f"{r.workload} {r.subscriptions:,}",
        "way": lambda r: r.way,
        "build CPU s": lambda r: r.build_cpu_seconds,
        "files MB": lambda r: r.file_bytes / 1e6,
        "mapped MB": lambda r: r.mapped_bytes / 1e6,
        "own MB": lambda r: r.own_bytes / 1e6,
        "visits": lambda r: r.visits,
        "events/s": lambda r: r.events / r.seconds,
        "events/CPU s": lambda r: r.events / r.cpu_seconds,
        "x one index": lambda r: r.events / r.cpu_seconds / single[r.workload, r.subscriptions],
        "notifications": lambda r: r.notifications,
    }
    return table("One index against partitions", Partitioning, columns, words=2)(records)


TABLES = (
    _compared,
    table(
        "Against the bare matcher, events/s",
        Kernel,
        {
            "workload": lambda r: r.title,
            "notifications/event": lambda r: r.notifications_per_event,
            "pairs, in memory, 1 core": lambda r: r.pairs,
            "whole job, 1 core": lambda r: r.alone,
            "on all cores at once": lambda r: r.together,
            "Spark, all cores": lambda r: r.spark,
            "cores": lambda r: r.cores,
            "of cores x alone": lambda r: f"{r.share:.0%}",
            "of all at once": lambda r: f"{r.share_of_machine:.0%}",
        },
    ),
    table(
        "Rows, nested and ordinals, against the bare matcher by turns",
        Outcome,
        {
            "workload": lambda r: r.title,
            "output": lambda r: r.output,
            "reader": lambda r: r.reader,
            "bare CPU us/event": lambda r: r.bare_cpu_seconds * 1e6,
            "JVM CPU us/event": lambda r: r.jvm_seconds * 1e6,
            "Python CPU us/event": lambda r: r.python_seconds * 1e6,
            "of the CPU time": lambda r: f"{r.cpu_share:.0%}",
            "events/s": lambda r: 1 / r.seconds,
            "of cores x bare": lambda r: f"{r.share:.0%}",
        },
        words=3,
    ),
    table(
        "Where the CPU time of a job goes",
        Cost,
        {
            "workload": lambda r: r.title,
            "step": lambda r: r.step,
            "events/s": lambda r: r.rate,
            "JVM CPU us/event": lambda r: r.jvm_seconds * 1e6,
            "Python CPU us/event": lambda r: r.python_seconds * 1e6,
            "both us/event": lambda r: (r.jvm_seconds + r.python_seconds) * 1e6,
        },
        words=2,
    ),
    _growth,
    table(
        "The index is loaded once a worker, not once a task",
        Loading,
        {
            "cores": lambda r: r.cores,
            "sets used": lambda r: r.sets,
            "tasks": lambda r: r.tasks,
            "workers": lambda r: r.workers,
            "loads": lambda r: r.loads,
            "most in one worker": lambda r: r.most_loads,
            "s/load": lambda r: r.seconds_per_load,
            "index file MB": lambda r: r.file_bytes / 1e6,
            "mapped by all MB": lambda r: r.mapped_bytes / 1e6,
            "of it in memory MB": lambda r: r.mapped_once_bytes / 1e6,
            "private, all workers MB": lambda r: r.private_bytes / 1e6,
        },
        words=0,
    ),
    table(
        "State: delivery constraints on a stream",
        State,
        {
            "keys": lambda r: r.keys,
            "micro-batches": lambda r: r.batches,
            "notifications judged": lambda r: r.notifications,
            "delivered": lambda r: r.delivered,
            "judged/s": lambda r: r.rate,
            "s/micro-batch": lambda r: r.batch_seconds,
            "first one s": lambda r: r.first_batch_seconds,
            "rows of state": lambda r: r.state_rows,
            "memory MB": lambda r: r.memory_bytes / 1e6,
            "checkpoint MB": lambda r: r.disk_bytes / 1e6,
        },
        words=0,
    ),
    _ways,
    _partitionings,
)
NOTES = {
    "Against what a Spark user": (
        "All sides run in one Spark session on all cores and give the same pairs on a sample before they are timed. "
        "In *mix* subscriptions ask 2 to 5 of 20 attributes, and none is asked by all, so Spark compares every event "
        "with every subscription. In *stock* all name a symbol, which is a key to join by."
    ),
    "Against the bare": (
        "Both sides do the same job: read from Parquet the columns that filters name, match with the same function in "
        "batches of the same size, make the notifications as Arrow, throw them away. *Whole job* is one plain process, "
        "*on all cores at once* the sum of one a core; *pairs* leaves out reading and notifications. Spark has started "
        "and has run the job before; from then on nothing is subtracted."
    ),
    "Where the CPU": (
        "Each step holds the ones before it. *Read* takes the columns from Parquet into the JVM's rows; then they go "
        "to a Python function that counts them; then it also returns as many notifications as matching gives, made "
        "beforehand. That one is the overhead: Spark with a matcher that costs nothing. Only what *the whole job* has "
        "beyond it is matching. The *plain process* does the whole job without Spark, on one core."
    ),
    "Growth": "Whole jobs; 200 subscriptions a symbol, so an event matches as many at every size.",
    "State": (
        "Every key is a subscription with a frequency, and every micro-batch touches all of them; "
        "the rate is of the micro-batches after the first."
    ),
}

# --- the picture of growth --------------------------------------------------------------------------------------------

IMAGE = Path("images") / "pipeline-growth.svg"
COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8e5ea2", "#e08e45")
DASHES = ("--", "-", ":", "-.")


def draw(points: Sequence[Growth], path: Path) -> None:
    """Write the picture as SVG; the same points give the same file."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    cores = sorted({point.cores for point in points})
    with mpl.rc_context({"svg.hashsalt": "recado", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log", xlabel="events", ylabel="events/s")
        for colour, size in zip(COLOURS, sorted({point.subscriptions for point in points}), strict=False):
            for dash, count in zip(DASHES, cores, strict=False):
                line = sorted((p.events, p.rate) for p in points if (p.subscriptions, p.cores) == (size, count))
                label = f"{size:,} subscriptions, {count} core{'s' * (count > 1)}"
                axes.plot(*zip(*line, strict=True), dash, color=colour, marker="o", markersize=4, label=label)
        axes.grid(True, which="major", linewidth=0.4)
        axes.legend(fontsize=8, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def draw_growth(records: Sequence[Record], page: Path) -> dict[str, str]:
    """The picture beside the page, where the run has a growth curve; the line to put under its table."""
    points = of_kind(records, Growth)
    if not points:
        return {}
    draw(points, page.parent / IMAGE)
    return {"Growth": f"![Events a second over events]({IMAGE.as_posix()})"}


# --- targets ----------------------------------------------------------------------------------------------------------

TIMES = 100
COMPARED_SIZE = 100_000
ROWS_TIMES = 1.7
ROWS_TARGET = "rows, against rows that each come from Python"


def better_rate(records: Sequence[Record], workload: str, size: int) -> float | None:
    """Of what a Spark user would write, the faster."""
    rates = [side.rate.best for side in _sides(records, workload, size) if side.side != RECADO]
    return max(rates, default=None)


def _against_spark(records: Sequence[Record]) -> Iterator[Target]:
    name = f"mix {COMPARED_SIZE:,}: against the better of {LOOP_JOIN} and {RULES}"
    mine = [side.rate.best for side in _sides(records, "mix", COMPARED_SIZE) if side.side == RECADO]
    theirs = better_rate(records, "mix", COMPARED_SIZE)
    yield at_least(name, mine[0] / theirs if mine and theirs else None, TIMES)


def _against_bare(records: Sequence[Record]) -> Iterator[Target]:
    """Nested rows or ordinals, by whichever reader is faster by the clock; beside it the share of CPU time."""
    for workload, form, share in (("stock", "columns", 0.6), ("wide", "columns", 0.6), ("wide", "JSON", 0.8)):
        title = f"{workload} {MILLION:,}, {form}"
        found = [r for r in of_kind(records, Outcome) if r.title == title and r.output in ("nested", "ordinals")]
        best = max(found, key=lambda r: r.share, default=None)
        name = f"{title}: Spark, nested or ordinals, against as many plain processes as cores"
        shown = (
            ""
            if best is None
            else f"{best.share:.0%} ({best.output}, {best.reader}; {best.cpu_share:.0%} of the CPU time)"
        )
        yield Target(name, f"at least {share:.0%}", shown, None if best is None else best.share >= share)


def _rows_against_before(records: Sequence[Record]) -> Iterator[Target]:
    title = f"stock {MILLION:,}, columns"
    rates = {r.output: 1 / r.seconds for r in _outcomes(records, title)}
    known = {"rows", ROWS_BEFORE} <= set(rates)
    yield at_least(f"{title}: {ROWS_TARGET}", rates["rows"] / rates[ROWS_BEFORE] if known else None, ROWS_TIMES)


def _outcomes(records: Sequence[Record], title: str) -> list[Outcome]:
    return [r for r in of_kind(records, Outcome) if (r.title, r.reader) == (title, SPARKS_READER)]


def _sides(records: Sequence[Record], workload: str, size: int) -> list[Side]:
    return [r for r in of_kind(records, Side) if (r.workload, r.subscriptions) == (workload, size)]


TARGETS = (_against_spark, _against_bare, _rows_against_before)
