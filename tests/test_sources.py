"""Every number and id by which code, experiments and docs cite the five documents leads somewhere in docs/sources.md.

A citation belongs to the document that its sentence names, or else to the one that its folder is about (FOLDERS).
Its number is one of the outline in ``src``, ``benchmarks`` and pages; experiments cite the document's own sections,
figures and tables, which stand in the last column of the outline. Reports of experiments may have either: one that was
written before experiments cited so has numbers of the outline.
Numbers of RFCs and of CESQL are their own; in ``protocols/sip`` a number without a name is one of RFC 3261.
"""

from __future__ import annotations

import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "sources.md"
DOCUMENTS = ("Trees", "Mobility", "Semantics", "Super nodes", "Sensor network")

FOLDERS = {
    "src/recado/protocols/trees": "Trees",
    "src/recado/protocols/baselines": "Trees",
    "src/recado/sim/runs": "Trees",
    "experiments/trees": "Trees",
    "docs/experiments/trees": "Trees",
    "src/recado/broker": "Mobility",
    "src/recado/client": "Mobility",
    "src/recado/net": "Mobility",
    "src/recado/protocols/rudp": "Mobility",
    "src/recado/protocols/session": "Mobility",
    "src/recado/server": "Mobility",
    "src/recado/sim/mobility": "Mobility",
    "experiments/mobility": "Mobility",
    "docs/experiments/mobility": "Mobility",
    "benchmarks/semantics": "Semantics",
    "src/recado/semantics": "Semantics",
    "experiments/semantics": "Semantics",
    "docs/experiments/semantics": "Semantics",
    "benchmarks/sim_peers": "Super nodes",
    "src/recado/protocols/supernodes": "Super nodes",
    "experiments/supernodes": "Super nodes",
    "docs/experiments/super-nodes": "Super nodes",
    "src/recado/protocols/sensors": "Sensor network",
    "src/recado/radio": "Sensor network",
    "src/recado/sim/radio": "Sensor network",
    "experiments/sensornetwork": "Sensor network",
    "docs/experiments/sensor-network": "Sensor network",
}

NUMBER = r"\d{1,2}(?:\.\d{1,2}){0,3}"
RANGE = rf"{NUMBER}(?:(?:-| to ){NUMBER})?"
NUMBERS = rf"{RANGE}(?:(?:, | and |, and ){RANGE})*"
NAMES = {
    "tree": "Trees",
    "mobility": "Mobility",
    "semantics": "Semantics",
    "super-node": "Super nodes",
    "sensor": "Sensor network",
}
NAMED = re.compile(rf"\b({'|'.join(NAMES)}) document\b")
CITED = re.compile(
    rf"\b[Ss]ections? ({NUMBERS})"
    rf"|\bdocument(?:'s)?,? (?:sections? )?({NUMBERS})(?=[\s),;:.]|$)"
    rf"|\(({NUMBERS}) of the [\w-]+ document"
)
BARE = re.compile(rf"(?<!\w)\((?![01]\.0|0\))({NUMBERS})(?=[),;])|\(({NUMBERS}) and A-")
ID = re.compile(r"\bER\d+\b|\bA-\d\d\b|\b\d+(?:\.\d+)?-[AR]\d+\b")
IDS = re.compile(r"\b(ER|A-)(\d+) to (?:\1)(\d+)\b")
EXPERIMENTS, REPORTS = "experiments/", "docs/experiments/"
NAMED_ID = re.compile(rf"\b(?:erratum|question) ({ID.pattern})")
OUTLINED = re.compile(rf"\boutline ({NUMBERS})|({NUMBERS}) of the outline")
"""How an experiment says that it means a number of the outline."""
OTHERS = re.compile(r"(?:RFCs?|CESQL)[^;)\n]*")


def section(title: str) -> str:
    """The text below a heading of the second order."""
    found = re.search(
        rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found, f"docs/sources.md has no section {title}"
    return found[1]


def rows(title: str, part: str) -> list[list[str]]:
    found = re.search(rf"^### {re.escape(title)}: {part}\n(.*?)(?=^### |\Z)", section(title), re.MULTILINE | re.DOTALL)
    assert found, f"docs/sources.md has no part {title}: {part}"
    table = [line for line in found[1].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def expand(text: str) -> list[str]:
    """The numbers in ``text``; of a range all its members, if it is one of last places."""
    numbers = []
    for found in re.finditer(rf"({NUMBER})(?:(?:-| to )({NUMBER}))?", text):
        first, last = found.groups()
        head, _, tail = first.rpartition(".")
        if last and last.rpartition(".")[0] == head:
            numbers += [f"{head}.{n}" if head else str(n) for n in range(int(tail), int(last.rpartition(".")[2]) + 1)]
        else:
            numbers += [first, last] if last else [first]
    return numbers


def outline(title: str) -> set[str]:
    return {row[0] for row in rows(title, "outline")}


def own(title: str) -> set[str]:
    """Numbers of the document itself that may be cited: those of the paragraph below its outline."""
    found = re.search(r"^The document's own .*?(?=\n\n)", section(title), re.MULTILINE | re.DOTALL)
    return set(expand(found[0])) if found else set()


def behind(title: str) -> set[str]:
    """Numbers of the document itself that stand behind its outline, and what they are part of: 4.4 of 4.4.1."""
    numbers = own(title) | {number for row in rows(title, "outline") for number in expand(row[2])}
    return numbers | {".".join(number.split(".")[:length]) for number in numbers for length in (1, 2, 3)}


def ids(title: str) -> set[str]:
    return {row[0] for row in rows(title, "errata")}


def known_ids() -> set[str]:
    return {one for title in DOCUMENTS for one in ids(title)}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Comments, docstrings and other strings of a module, each with the number of its first line."""
    source = path.read_text(encoding="utf-8")
    if not re.search(r"[Ss]ections? \d|\bdocument|\(\d", source):
        return
    comment: list[str] = []
    start = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            start = start if comment else token.start[0]
            comment.append(token.string.lstrip("# "))
        elif token.type not in (tokenize.NL, tokenize.NEWLINE) and comment:
            yield start, "\n".join(comment)
            comment = []
        if token.type == tokenize.STRING:
            yield token.start[0], token.string
    if comment:
        yield start, "\n".join(comment)


def folder_of(path: Path) -> str | None:
    name = path.relative_to(ROOT).as_posix()
    return next((title for folder, title in FOLDERS.items() if name.startswith(folder)), None)


def citations(path: Path, text: str, *, bare: bool) -> Iterator[tuple[str, str]]:
    """Pairs of a document and a number. A line break inside of a sentence does not matter."""
    text = OTHERS.sub("", re.sub(r"\s*\n\s*(?:# )?", " ", text))
    default = folder_of(path)
    for pattern in (CITED, BARE) if bare else (CITED,):
        for found in pattern.finditer(text):
            near = [(abs(one.start() - found.start()), NAMES[one[1]]) for one in NAMED.finditer(text)]
            distance, title = min(near, default=(1_000, ""))
            title = title if distance < 60 else default or ""
            if title:
                yield from ((title, number) for number in expand(next(group for group in found.groups() if group)))


def modules() -> list[Path]:
    return [path for root in ("src", "experiments", "benchmarks") for path in sorted((ROOT / root).rglob("*.py"))]


def pages() -> list[Path]:
    return [path for path in sorted((ROOT / "docs").rglob("*.md")) if path != PAGE]


@cache
def cited() -> list[tuple[str, str, str]]:
    """Where, which document, which number."""
    in_code = [
        (f"{path.relative_to(ROOT)}:{line}", title, number)
        for path in modules()
        for line, text in texts(path)
        for title, number in citations(path, text, bare=folder_of(path) is not None)
    ]
    return in_code + [
        (str(path.relative_to(ROOT)), title, number)
        for path in pages()
        for title, number in citations(path, path.read_text(encoding="utf-8"), bare=False)
    ]


@pytest.mark.parametrize("title", DOCUMENTS)
def test_each_document_has_an_outline_and_errata(title):
    numbers = [row[0] for row in rows(title, "outline")]
    assert len(numbers) > 30
    assert len(set(numbers)) == len(numbers)
    ids = [row[0] for row in rows(title, "errata")]
    assert len(ids) >= 20
    assert len(set(ids)) == len(ids)
    for row in rows(title, "outline") + rows(title, "errata"):
        assert len(row) == 3, row
        assert all(row), row


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the tree document, section 2.3", [("Trees", "2.3")]),
        ("sections 4.1.3 and 7.2.2 of the tree document", [("Trees", "4.1.3"), ("Trees", "7.2.2")]),
        ("(mobility document, 3.3-3.5; RFC 3261, 9 and 13)", [("Mobility", n) for n in ("3.3", "3.4", "3.5")]),
        ("the mobility\n# document, 6.2, 7", [("Mobility", "6.2"), ("Mobility", "7")]),
        ("(2.5, 4.17 of the semantics document)", [("Semantics", "2.5"), ("Semantics", "4.17")]),
        ("the mean (4.9, A-05)", [("Semantics", "4.9")]),
        ("equal names (1.0), a status (415)", []),
    ],
)
def test_citations_are_found(text, expected):
    found = citations(ROOT / "src/recado/semantics/any.py", text, bare=True)
    assert list(dict.fromkeys(found)) == expected


def test_every_section_that_is_cited_is_in_the_outline():
    found = [one for one in cited() if not one[0].startswith((EXPERIMENTS, REPORTS))]
    assert {title for _, title, _ in found} == set(DOCUMENTS)
    assert len(found) > 120
    known = {title: outline(title) | own(title) for title in DOCUMENTS}
    assert not [one for one in found if one[2] not in known[one[1]]]


def test_every_section_that_an_experiment_cites_stands_behind_the_outline():
    found = [one for one in cited() if one[0].startswith(EXPERIMENTS)]
    assert {title for _, title, _ in found} >= {"Trees", "Mobility", "Semantics", "Super nodes"}
    known = {title: behind(title) for title in DOCUMENTS}
    assert not [one for one in found if one[2] not in known[one[1]]]


def test_every_number_of_an_outline_that_an_experiment_names_is_in_it():
    places = [path for kind in ("*.py", "*.toml") for path in sorted((ROOT / "experiments").rglob(kind))]
    found = [
        (path.relative_to(ROOT).as_posix(), number)
        for path in places
        for one in OUTLINED.finditer(path.read_text(encoding="utf-8"))
        for number in expand(one[1] or one[2])
    ]
    assert len(found) >= 10
    assert not [one for one in found if one[1] not in outline(folder_of(ROOT / one[0]))]


def test_every_section_that_a_report_cites_is_known():
    found = [one for one in cited() if one[0].startswith(REPORTS)]
    known = {title: behind(title) | outline(title) for title in DOCUMENTS}
    assert not [one for one in found if one[2] not in known[one[1]]]


def test_every_id_that_is_cited_is_in_a_list_of_errata():
    known, found = known_ids(), []
    for path in [*modules(), *sorted((ROOT / "experiments").rglob("*.toml")), *pages()]:
        text = path.read_text(encoding="utf-8")
        spans = {
            f"{kind}{n:0{len(first)}}"
            for kind, first, last in IDS.findall(text)
            for n in range(int(first), int(last) + 1)
        }
        found += [(str(path.relative_to(ROOT)), one) for one in {*ID.findall(text), *spans}]
    assert len(found) > 30
    assert not [one for one in found if one[1] not in known]


PLACE = re.compile(rf"\b(?:chapters?|sections?|figures?|tables?|formulas?) ({NUMBERS})")


def read_place(place: str) -> tuple[list[str], list[str]]:
    """The document's own numbers in a place, and the ids of errata or questions."""
    return [number for found in PLACE.findall(place) for number in expand(found)], NAMED_ID.findall(place)


@pytest.mark.parametrize(
    ("place", "numbers", "named"),
    [
        ("section 4.4.4.2, erratum ER19", ["4.4.4.2"], ["ER19"]),
        ("section 4.5.1, question A-03", ["4.5.1"], ["A-03"]),
        ("sections 4.2, 4.5 and 5.5", ["4.2", "4.5", "5.5"], []),
        ("section 5.2, figure 30", ["5.2", "30"], []),
        ("appendix A, table 6.1", ["6.1"], []),
    ],
)
def test_places_are_read(place, numbers, named):
    assert read_place(place) == (numbers, named)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("trees", "Trees"),
        ("mobility", "Mobility"),
        ("semantics", "Semantics"),
        ("supernodes", "Super nodes"),
        ("sensornetwork", "Sensor network"),
    ],
)
def test_every_place_of_a_published_value_is_known(name, title):
    """``section 4.4.4.2, erratum ER19``: the document's own section, figure or table, and a line of its errata."""
    data = tomllib.loads((ROOT / "experiments" / name / "expected.toml").read_text(encoding="utf-8"))
    places = {line["place"] for sort in ("values", "claims", "points") for line in data.get(sort, [])}
    assert places
    for place in places:
        numbers, named = read_place(place)
        assert numbers, place
        assert set(numbers) <= behind(title), place
        assert set(named) <= ids(title), place
