"""docs/architecture.md says how Recado is built: here it is held against the code.

The rooms are those of the import contract in pyproject.toml, each with the first sentence of its docstring. Files and
functions that the page names exist. The two walks are recorded: a publication in a service of this process, from the
bytes of an HTTP request to those on a device's WebSocket, and a notification through a node of an overlay.
"""

from __future__ import annotations

import ast
import asyncio
import doctest
import importlib
import re
import sys
import threading
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from overlay.helpers import QUICK
from recado.filters.syntax import parse_filter
from recado.model import Event, Subscription
from recado.overlay.node import Node
from recado.protocols.pubsub import Settled
from recado.protocols.session import messages as m
from server.running import agent, http, run, serving

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "recado"
PAGE = ROOT / "docs" / "architecture.md"
COUNTED = re.compile(r"(\d+) calls in (\d+) files.*?(\d+) functions\s+in\s+(\d+)\s+files", re.DOTALL)
LOG_THREAD = "recado-log"
COMMENT_COLUMN = 68
"""Where the diagram's remarks begin."""
HANDED_OVER = ("call_soon", "call_soon_threadsafe", "create_task", "submit", "write")
"""Functions of asyncio and concurrent.futures by which something goes on in another turn, thread or process."""
HANDED_OVER_IN_C = ("execute", "executemany", "set_result")
LARGE = 2_000
"""A room with more lines has an import contract of its own."""
MOST_CALLS, MOST_FILES = 29, 19
"""Of the walk of an event: half of the 58 and 39 that were counted before there was one broker."""


class Step(NamedTuple):
    file: str
    function: str


# --- The page ---------------------------------------------------------------------------------------------------------


def part(title: str) -> str:
    """The text below a heading."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/architecture.md has no part {title!r}"
    return found[1]


def steps(title: str) -> list[Step]:
    found = re.findall(r"^\d+\. `([\w/.]+\.py):([\w.]+)`", part(title), re.MULTILINE)
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", part(title), re.MULTILINE)]
    assert numbers == list(range(1, len(found) + 1))
    return [Step(*one) for one in found]


WALKS = ("The walk of an event", "The walk of a message")


# --- The rooms --------------------------------------------------------------------------------------------------------


def contracts() -> list[dict[str, Any]]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return found


def layers() -> list[list[str]]:
    """The rooms from top to bottom; those at one height together."""
    (found,) = [contract for contract in contracts() if contract["id"] == "layers"]
    return [re.findall(r"\w+", layer) for layer in found["layers"]]


def first_sentence(room: str) -> str:
    text = importlib.import_module(f"recado.{room}").__doc__ or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.?])\s", paragraph)[0].rstrip(":").replace("``", "`")


def rooms_table() -> str:
    rows = [f"| `{room}` | {first_sentence(room)} |" for layer in layers() for room in layer]
    return "\n".join(["| room | what it is |", "|---|---|", *rows])


def test_the_rooms_are_those_of_the_import_contract():
    expected = rooms_table()
    assert expected in part("The rooms"), f"the table of rooms is now:\n{expected}"


def test_every_package_is_a_room():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages <= {room for layer in layers() for room in layer}


def test_contributing_has_the_rooms_in_their_order():
    found = re.search(r"^```\n(cli > .*?)^```", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found
    rooms = [[room.strip() for room in height.split("|")] for height in found[1].split(">")]
    assert list(map(sorted, rooms)) == list(map(sorted, layers()))


def test_the_map_in_the_readme_has_every_room():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^src/recado/\n(.*?)^tests/", readme, re.MULTILINE | re.DOTALL)
    assert found
    for room in {room for layer in layers() for room in layer} - {"version"}:
        assert re.search(rf"^  (?:.*, )?{room}(?:/|\.py)", found[1], re.MULTILINE), room


def test_a_contract_looks_inside_every_large_room():
    large = {
        f"recado.{room.name}"
        for room in SOURCE.iterdir()
        if room.is_dir() and sum(len(path.read_text().splitlines()) for path in room.rglob("*.py")) > LARGE
    }
    inside = {room for contract in contracts() for room in contract.get("containers", ())}
    assert {"recado.server", "recado.broker", "recado.protocols"} <= large
    assert large - inside == set()


def imported(path: Path, modules: Collection[str]) -> Iterator[str]:
    """What a module of Recado imports, anywhere in it: in a function or for types alone, too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def find_cycle(imports: Mapping[str, Collection[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other():
    """Whichever is imported first, it works; and each can be read without the other. No late import hides a cycle."""
    paths = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in SOURCE.rglob("*.py")
    }
    imports = {name: {one for one in imported(path, paths) if one in paths} for name, path in paths.items()}
    assert find_cycle(imports) == []
    assert find_cycle({**imports, "recado.errors": {"recado.cli.app"}})


def test_the_diagram_has_every_room_at_its_height():
    found = re.search(r"^```text\n(.*?)^```", part("One core, three engines"), re.MULTILINE | re.DOTALL)
    assert found
    words = [line[:COMMENT_COLUMN].split() for line in found[1].splitlines()]
    height = {room: number for number, line in enumerate(words) for layer in layers() for room in layer if room in line}
    assert set(height) == {room for layer in layers() for room in layer}
    below = [[height[room] for room in layer] for layer in layers()]
    assert all(max(upper) <= min(lower) for upper, lower in pairwise(below))


# --- What the page names ----------------------------------------------------------------------------------------------


def functions(path: Path) -> set[str]:
    """Functions of a module by their qualified names, without those inside of functions."""
    found = set()

    def look(body: Iterable[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(prefix + node.name)
            elif isinstance(node, ast.ClassDef):
                look(node.body, f"{prefix}{node.name}.")

    look(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


@pytest.mark.parametrize("title", WALKS)
def test_every_step_is_a_function(title):
    assert steps(title)
    for file, function in steps(title):
        assert function in functions(SOURCE / file), f"{file} has no function {function}"


def test_every_file_that_is_named_exists():
    named = re.findall(r"`((?:src|tests|docs|benchmarks|experiments|examples)/[\w/.]+)`", PAGE.read_text("utf-8"))
    assert len(named) > 20
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_example_of_the_contract_runs():
    (source,) = re.findall(r"^```python\n(.*?)^```", part("One contract"), re.MULTILINE | re.DOTALL)
    example = doctest.DocTestParser().get_doctest(source, {}, PAGE.name, str(PAGE), 0)
    assert len(example.examples) > 3
    assert doctest.DocTestRunner().run(example).failed == 0


# --- The walks, recorded ----------------------------------------------------------------------------------------------


class Recorder:
    """Which of Recado's own functions are entered, in their order, in this thread and in that of the event log.

    ``carriers`` are those of them that were on the stack when something was handed over to another turn of the loop, to
    a thread, to SQLite or to a socket: what is on the way of an event is among them.
    """

    def __init__(self) -> None:
        self.entered: list[Step] = []
        self.carriers: dict[Step, None] = {}
        self._frames: dict[int, FrameType] = {}  # kept, so that a coroutine that goes on is not entered again
        self._on = False

    def __enter__(self) -> Recorder:
        self.entered, self.carriers = [], {}
        self._on = True
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._on = False
        self._frames.clear()

    def watch_new_threads(self) -> None:
        """Call it before the thread of the log begins, with its first commit."""
        threading.setprofile(self._in_thread)

    def _in_thread(self, _frame: FrameType, _event: str, _argument: Any) -> None:
        named = threading.current_thread().name.startswith(LOG_THREAD)
        sys.setprofile(self._look if named else None)

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self._on:
            return
        if event == "c_call" and argument.__name__ in HANDED_OVER_IN_C:
            self._carry(frame)
        elif event == "call":
            step = step_of(frame)
            if step is None:
                if frame.f_code.co_name in HANDED_OVER:
                    self._carry(frame)
            elif id(frame) not in self._frames:
                self._frames[id(frame)] = frame
                self.entered.append(step)

    def _carry(self, frame: FrameType | None) -> None:
        while frame is not None:
            if step := step_of(frame):
                self.carriers[step] = None
            frame = frame.f_back


def step_of(frame: FrameType) -> Step | None:
    """The function of a frame, if it is one of Recado's; functions inside of others and comprehensions are none."""
    code = frame.f_code
    if not code.co_filename.startswith(str(SOURCE)) or "<" in code.co_qualname:
        return None
    return Step(Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_qualname)


def missing(walk: list[Step], entered: list[Step]) -> Step | None:
    """The first step that does not come after those before it."""
    rest = iter(entered)
    return next((step for step in walk if step not in rest), None)


def check_walk(title: str, walks: list[list[Step]]) -> None:
    """Every walk is the page's. What is entered in all of them counts: on a busy machine other things get between."""
    walk = steps(title)
    for entered in walks:
        absent = [step for step in walk if step not in entered]
        assert not absent, f"not entered: {absent}"
        lost = missing(walk, entered)
        assert lost is None, f"{lost} does not come after the steps before it"
    always = set.intersection(*map(set, walks))
    found = COUNTED.search(part(title))
    assert found, "the page says how many calls, functions and files there are"
    calls, files, most_functions, most_files = map(int, found.groups())
    assert (calls, files) == (len(walk), len({step.file for step in walk}))
    functions, through = len(always), len({step.file for step in always})
    assert functions <= most_functions, f"{functions} functions"
    assert through <= most_files, f"{through} files"


@pytest.fixture
def recorder():
    before = threading.getprofile()
    try:
        yield Recorder()
    finally:
        threading.setprofile(before)
        sys.setprofile(None)


def test_an_event_walks_as_the_page_says(tmp_path, recorder):
    """Eight times, since now and then something else is done in between; what carries an event does so each time."""
    carriers: list[set[Step]] = []
    walks: list[list[Step]] = []

    async def publish():
        async with serving(tmp_path) as server, http(server, "bob") as client, agent(server, "ana") as device:
            await device.subscribe(1, id="s", filter="price > 5")
            recorder.watch_new_threads()
            for number in range(10):  # the first two start threads and fill caches
                event = {"id": f"e{number}", "type": "t", "source": "x", "price": 10}
                await asyncio.sleep(0.2)  # until what the one before has left to do is done
                with recorder:
                    answer = await client.post("/v1/events", json=event)
                    notified = await device.next(m.Notify)
                assert (answer.status_code, notified.sub_id) == (202, "s")
                if number >= 2:
                    walks.append(recorder.entered)
                    carriers.append(set(recorder.carriers))

    run(publish())
    check_walk("The walk of an event", walks)
    walk = steps("The walk of an event")
    assert len(walk) <= MOST_CALLS
    assert len({step.file for step in walk}) <= MOST_FILES
    left_out = set.intersection(*carriers) - set(steps("The walk of an event"))
    assert not left_out, f"the page leaves out {left_out}"


def test_a_message_walks_as_the_page_says(recorder):
    async def pass_on():
        async with Node("a", limits=QUICK) as first, Node("b", limits=QUICK) as relay, Node("c", limits=QUICK) as last:
            relay.connect(str(first.address))
            relay.connect(str(last.address))
            await relay.wait_for_links("a", "c")
            await first.become_publisher("t")
            stream = await last.subscribe(Subscription("s", parse_filter("x > 1"), "t"))
            while not first.driver.machine.inspect()["tables"].get("t"):
                await asyncio.sleep(0.01)
            for number in range(3):
                with recorder:
                    await first.publish(Event(f"e{number}", "t", attributes={"x": 2}))
                    while isinstance(found := await anext(stream), Settled):
                        pass
                assert found.event.id == f"e{number}"
                walks.append(recorder.entered)

    walks: list[list[Step]] = []
    run(asyncio.wait_for(pass_on(), 30))
    check_walk("The walk of a message", walks)


def test_a_step_out_of_order_is_found():
    walk = [Step("a.py", "f"), Step("b.py", "g")]
    assert missing(walk, [Step("b.py", "g"), Step("a.py", "f"), Step("b.py", "g")]) is None
    assert missing(walk, [Step("b.py", "g"), Step("a.py", "f")]) == Step("b.py", "g")
