"""The files of a data set, in the format of section 4.3.1 of the semantics document.

Three are the document's: events, subscriptions and labels. The fourth says by the seeds of events on which events a
subscription is judged, in the form of the labels.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from experiments.semantics.dataset import Dataset, Item
from recado.filters.braces import label_line, read_pairs

EVENTS, SUBSCRIPTIONS, LABELS, JUDGED = "events.txt", "subscriptions.txt", "labels.txt", "judged.txt"


def folder() -> Traversable:
    """Where the experiment's own files are."""
    return files("experiments") / "semantics"


def write_dataset(dataset: Dataset, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, items in ((EVENTS, dataset.events), (SUBSCRIPTIONS, dataset.subscriptions)):
        (folder / name).write_text("".join(map(_line, items)), encoding="utf-8")
    for name, lists in ((LABELS, dataset.labels), (JUDGED, dataset.judged)):
        text = "".join(f"{id}\t[{', '.join(ids)}]\n" for id, ids in lists.items())
        (folder / name).write_text(text, encoding="utf-8")


def _line(item: Item) -> str:
    return f"{item.id}\t{{{', '.join(f'{name}={value}' for name, value in item.pairs)}}}\n"


def read_dataset(folder: Path) -> Dataset:
    labels, judged = (dict(map(label_line, _lines(folder / name))) for name in (LABELS, JUDGED))
    return Dataset(read_items(folder / EVENTS), read_items(folder / SUBSCRIPTIONS), labels, judged)


def read_items(path: Path) -> tuple[Item, ...]:
    """The lines of an event file or of a subscription file; names and values as they stand there."""
    found = []
    for line in _lines(path):
        id, _, body = line.partition("\t")
        found.append(Item(id, tuple((name, str(value)) for name, value in read_pairs(body))))
    return tuple(found)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
