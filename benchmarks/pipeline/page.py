"""The page of a run: the command, the machine, the tables, the picture. Nothing in it is typed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.pipeline.figure import draw
from benchmarks.pipeline.records import AnyRecord, Growth
from benchmarks.pipeline.tables import tables
from benchmarks.records import Machine
from benchmarks.report import markdown_table
from benchmarks.tables import machine_line

IMAGE = Path("images") / "pipeline-growth.svg"
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
        "beforehand. That one is the floor: Spark with a matcher that costs nothing. Only what *the whole job* has "
        "beyond it is matching. The *plain process* does the whole job without Spark, on one core."
    ),
    "Growth": "Whole jobs; 200 subscriptions a symbol, so an event matches as many at every size.",
    "State": (
        "Every key is a subscription with a frequency, and every micro-batch touches all of them; "
        "the rate is of the micro-batches after the first."
    ),
}


def write_page(path: Path, records: Sequence[AnyRecord], command: str) -> None:
    """The page, and the picture beside it where the run has a growth curve."""
    points = [record for record in records if isinstance(record, Growth)]
    if points:
        draw(points, path.parent / IMAGE)
    path.write_text(markdown(records, command), encoding="utf-8")


def markdown(records: Sequence[AnyRecord], command: str) -> str:
    parts = ["# The pipeline, measured", f"```\n{command}\n```"]
    parts += [machine_line(record, used="") for record in records if isinstance(record, Machine)]
    for grid in tables(records):
        title, _, table = markdown_table(grid).partition("\n\n")
        notes = [note for beginning, note in NOTES.items() if grid.title.startswith(beginning)]
        parts += [title, *notes, table]
        if grid.title == "Growth":
            parts.append(f"![Events a second over events]({IMAGE.as_posix()})")
    return "\n\n".join(parts) + "\n"
