"""The one harness: the cases of a subject are run, put into tables and a page, and held against targets.

A *subject* (matching, pipeline, sim ...) says which cases there are and what its records mean. Everything else is here:
the machine is described, cases run in the order of the plan, records come as they are found (a line of NDJSON each),
then the targets. A case checks its engines against the oracle before it measures and raises a DisagreementError if one
is wrong; that ends the run.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from recado.errors import RecadoError

if TYPE_CHECKING:
    from rich.table import Table

OWN_PACKAGES = ("numpy", "numba", "pyarrow", "msgspec")


class DisagreementError(RecadoError):
    """An engine does not give what the oracle gives; no figure of it is worth anything."""


# --- records ----------------------------------------------------------------------------------------------------------


class Rate(msgspec.Struct, frozen=True):
    """Events a second: the best and the middle one of several runs."""

    best: float
    median: float


class Record(msgspec.Struct, frozen=True, tag_field="record"):
    """What a case finds out; a line of NDJSON, and the source of every table."""

    @property
    def sentence(self) -> str:
        """What the page says of this record above its tables; most records stand in a table only."""
        return ""


class Machine(Record, frozen=True, tag="machine"):
    """Where the figures come from: no date and no host name, so that pages compare."""

    cpu: str
    cores: int
    memory_gb: float
    system: str
    python: str
    packages: dict[str, str]


class Step(Record, frozen=True, tag="step"):
    """What a case is doing now; announced, and not kept."""

    title: str


class Target(Record, frozen=True, tag="target"):
    """One thing to reach: what it asks, what was measured, and whether it is met (None: not measured in this run)."""

    name: str
    required: str
    measured: str
    met: bool | None


R = TypeVar("R", bound=Record)


def of_kind(records: Iterable[Record], kind: type[R]) -> list[R]:
    return [record for record in records if isinstance(record, kind)]


# --- subjects and cases -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One thing to measure. ``part`` is what ``--part`` selects it by; a case without one is always run.

    ``run`` gets an empty folder and gives records.
    """

    part: str
    title: str
    run: Callable[[Path], Iterable[Record]]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table as text. Columns after the first ``words`` hold numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A subject of measurement: its table of cases, and how its records are shown and judged.

    ``plan`` gives the cases of a full or quick run of some parts. ``extra_parts`` run only when they are named.
    ``notes`` are said above the tables whose titles begin so; ``draw`` writes pictures beside the page.
    """

    name: str
    title: str
    parts: tuple[str, ...]
    extra_parts: tuple[str, ...] = ()
    plan: Callable[[bool, Sequence[str]], Sequence[Case]]
    tables: Sequence[Callable[[Sequence[Record]], Grid]]
    targets: Sequence[Callable[[Sequence[Record]], Iterable[Target]]] = ()
    note: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    packages: Sequence[str] = OWN_PACKAGES
    programs: Callable[[], dict[str, str]] = dict
    one_core: bool = True
    draw: Callable[[Sequence[Record], Path], Mapping[str, str]] = lambda records, page: {}

    def select(self, quick: bool, parts: Sequence[str] = (), text: str = "") -> list[Case]:
        """The cases of these parts, or of all usual ones, whose title has this text."""
        wanted = tuple(parts) or self.parts
        return [case for case in self.plan(quick, wanted) if case.part in ("", *wanted) and text in case.title]


def run(subject: Subject, cases: Sequence[Case], announce: Callable[[str], object]) -> Iterator[Record]:
    """The machine, the records of the cases as they come, the targets; a DisagreementError if an engine is wrong."""
    records: list[Record] = [describe(subject.packages, subject.programs())]
    yield records[0]
    with tempfile.TemporaryDirectory(prefix="recado-bench-") as folder:
        for number, case in enumerate(cases):
            announce(case.title)
            place = Path(folder) / str(number)
            place.mkdir()
            for record in case.run(place):
                if isinstance(record, Step):
                    announce(record.title)
                else:
                    records.append(record)
                    yield record
    yield from judge(subject, records)


def judge(subject: Subject, records: Sequence[Record]) -> list[Target]:
    """All targets; one whose case was not part of the run says so."""
    return [target for rule in subject.targets for target in rule(records)]


# --- the machine ------------------------------------------------------------------------------------------------------


@lru_cache
def version_of(package: str) -> str:
    """The installed version; empty if it is not installed."""
    if package == "python":
        return platform.python_version()
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def describe(packages: Sequence[str], programs: Mapping[str, str] = {}) -> Machine:
    """This machine, with the versions of what is installed of the packages and programs."""
    versions = {package: version_of(package) for package in packages} | dict(programs)
    return Machine(
        cpu=_cpu(),
        cores=os.cpu_count() or 1,
        memory_gb=round(_memory_bytes() / 2**30, 1),
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        packages={package: number for package, number in versions.items() if number},
    )


def _cpu() -> str:
    """Linux knows the name of the processor; elsewhere the platform's answer has to do."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_bytes() -> int:
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return 0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# --- tables -----------------------------------------------------------------------------------------------------------


def table(
    title: str,
    kind: type[R],
    columns: Mapping[str, Callable[[R], object]],
    *,
    words: int = 1,
    where: Callable[[R], bool] = lambda record: True,
    keys: int = 0,
    measured: Callable[[R], bool] = lambda record: True,
) -> Callable[[Sequence[Record]], Grid]:
    """A maker of a table with a row for each record of a kind.

    A record that was not ``measured`` has its first ``keys`` cells, its note, and nothing more.
    """

    def row(record: R) -> tuple[str, ...]:
        if measured(record):
            return tuple(cell(value(record)) for value in columns.values())
        first = [cell(value(record)) for value in list(columns.values())[:keys]]
        note = str(getattr(record, "note", ""))
        return (*first, note, *[""] * (len(columns) - keys - 1))

    def make(records: Sequence[Record]) -> Grid:
        rows = [row(record) for record in of_kind(records, kind) if where(record)]
        return Grid(title=title, heads=tuple(columns), rows=rows, words=words)

    return make


def target_table(records: Sequence[Record]) -> Grid:
    words = {True: "yes", False: "no", None: "not measured in this run"}
    rows = [(t.name, t.required, t.measured, words[t.met]) for t in of_kind(records, Target)]
    return Grid(title="Targets", heads=("target", "required", "measured", "met"), rows=rows, words=4)


def make_tables(subject: Subject, records: Sequence[Record]) -> list[Grid]:
    """All tables that have rows."""
    return [grid for make in (*subject.tables, target_table) if (grid := make(records)).rows]


def cell(value: object) -> str:
    """A value as a table shows it: texts as they are, counts in full, other numbers with three digits that matter."""
    match value:
        case None:
            return ""
        case Rate():
            return number(value.best)
        case int():
            return f"{value:,}"
        case float():
            return number(value)
    return str(value)


def number(value: float | None) -> str:
    """Three digits that matter, thousands apart."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# --- targets ----------------------------------------------------------------------------------------------------------


def at_least(name: str, value: float | None, bound: float, unit: str = "x", shown: str = "") -> Target:
    return _target(
        name, f"at least {bound:,g} {unit}", None if value is None else value >= bound, shown or _with(value, unit)
    )


def at_most(name: str, value: float | None, bound: float, unit: str = "x", shown: str = "") -> Target:
    return _target(
        name, f"at most {bound:,g} {unit}", None if value is None else value <= bound, shown or _with(value, unit)
    )


def under(name: str, value: float | None, bound: float, unit: str, shown: str = "") -> Target:
    return _target(
        name, f"under {bound:,g} {unit}", None if value is None else value < bound, shown or _with(value, unit)
    )


def _with(value: float | None, unit: str) -> str:
    return f"{number(value)} {unit}"


def _target(name: str, required: str, met: bool | None, shown: str) -> Target:
    return Target(name, required.strip(), "" if met is None else shown.strip(), met)


# --- pages ------------------------------------------------------------------------------------------------------------


def sentences(subject: Subject, records: Iterable[Record]) -> list[str]:
    """The machine in a sentence, and what other records say of the run as a whole."""
    said = []
    for record in records:
        if isinstance(record, Machine):
            packages = ", ".join(f"{name} {number}" for name, number in record.packages.items())
            used = " (one used)" if subject.one_core else ""
            said.append(
                f"{record.cpu}, {record.cores} cores{used}, {record.memory_gb:g} GB, {record.system}, "
                f"Python {record.python}, {packages}"
            )
        elif record.sentence:
            said.append(record.sentence)
    return said


def markdown(
    subject: Subject, records: Sequence[Record], command: str, pictures: Mapping[str, str] | None = None
) -> str:
    """The results as a page: the command, the machine, the tables. Nothing in it is typed by hand.

    ``pictures`` are lines of Markdown to put under the tables of these titles.
    """
    parts = [f"# {subject.title}", f"```\n{command}\n```", *sentences(subject, records)]
    parts += [subject.note] if subject.note else []
    for grid in make_tables(subject, records):
        parts.append(f"### {grid.title}")
        parts += [note for beginning, note in subject.notes.items() if grid.title.startswith(beginning)]
        parts.append(markdown_table(grid))
        parts += [picture for title, picture in (pictures or {}).items() if title == grid.title]
    return "\n\n".join(parts) + "\n"


def write_page(subject: Subject, records: Sequence[Record], command: str, path: Path) -> None:
    """The page, and the pictures of the subject beside it."""
    path.write_text(markdown(subject, records, command, subject.draw(records, path)), encoding="utf-8")


def markdown_table(grid: Grid) -> str:
    marks = ["---" if place < grid.words else "---:" for place in range(len(grid.heads))]
    lines: list[Sequence[str]] = [grid.heads, marks, *grid.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def rich_table(grid: Grid) -> Table:
    """For a terminal."""
    from rich.table import Table

    table = Table(title=grid.title, title_justify="left", title_style="bold", header_style="bold", box=None)
    for place, head in enumerate(grid.heads):
        table.add_column(head, justify="left" if place < grid.words else "right", overflow="fold")
    for row in grid.rows:
        table.add_row(*row)
    return table
