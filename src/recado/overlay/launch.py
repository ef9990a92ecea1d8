"""Overlays on this machine from a topology file: what the file says, and the processes that run its nodes.

A **topology file** says which nodes an overlay has, who is linked with whom, and who publishes what.

::

    overlay = "laptop"
    links = ["ana-bruno", "bruno-carla"]

    [nodes.bruno]
    publishes = ["Tick"]

Instead of ``links`` there may be a ``network``: one of the tree document (``NET-13``, ``NET-16``, ``NET-5.1``), or a
generated one (``line``, ``ring``, ``star``, ``complete``, ``grid``, ``random-tree``, ``random-graph``, ``scale-free``)
with its ``size`` and, where chance plays a part, a ``seed``; its nodes are called n0, n1, …. ``protocol`` is a name of
``recado.protocols.registry`` or ``module:Class``, and ``settings`` are its settings; ``key-file`` is relative to the
topology file. ``subscribes`` are filters that nodes begin with: of one node under its name; at the top, one for each
node in turn. ``pace`` is how many nodes are started in a second.

Where machines speak to anyone they have heard of, links say whom a node knows at first. The first node knows nobody:
it is the one that others join. A node without links knows the first.

The overlay's folder (``recado.overlay.addresses``) holds ``launch.json``, which says how each node was started, so that
one that was killed can be started again as it was; the nodes' control sockets; ``state`` and ``logs``.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from recado import files
from recado.errors import RecadoError
from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.overlay.addresses import Address, check_name, overlay_folder, read_address, read_key, runtime, socket_path
from recado.overlay.client import OverlayClient, ask
from recado.overlay.control import control_of
from recado.overlay.limits import OVERLAY_LIMITS, OverlayError, OverlayLimits, reason_of
from recado.overlay.node import Node
from recado.protocols.registry import DEFAULT, find_protocol
from recado.protocols.topology import GENERATORS, NETWORKS, Topology

# --- Topology files --------------------------------------------------------------------------------------------------


class PlannedNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    publishes: tuple[str, ...] = ()
    subscribes: tuple[str, ...] = ()
    listen: str = "127.0.0.1:0"
    candidate: tuple[str, ...] = ()
    """Types that the node stands by for."""


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    overlay: str
    links: tuple[str, ...] = ()
    network: str = ""
    size: int = 0
    seed: int = 0
    key_file: str = ""
    protocol: str = DEFAULT
    settings: dict[str, Any] = {}
    nodes: dict[str, PlannedNode] = {}
    subscribes: tuple[str, ...] = ()
    pace: float = 0.0

    def filters(self, name: str, place: int) -> tuple[str, ...]:
        """What a node, the ``place``-th of all, subscribes to from the start."""
        own = self.nodes[name].subscribes if name in self.nodes else ()
        return own or ((self.subscribes[place % len(self.subscribes)],) if self.subscribes else ())

    def topology(self) -> Topology:
        """The graph that the file describes, with every name checked."""
        topology = self._network() if self.network else _topology_of(self.links, self.nodes)
        for name in map(str, topology.nodes):
            check_name(name)
        for name in self.nodes:
            if name not in topology.nodes:
                raise OverlayError(f"nodes.{name}: the network has no such node")
        if not topology.nodes:
            raise OverlayError('there are no nodes; give links, such as ["ana-bruno"], or a network')
        return topology

    def _network(self) -> Topology:
        if self.links:
            raise OverlayError("links and network exclude each other; give one")
        if self.network in NETWORKS:
            return NETWORKS[self.network]
        if self.network not in GENERATORS:
            known = ", ".join((*NETWORKS, *GENERATORS))
            raise OverlayError(f"network: there is no network {self.network!r}; there are {known}")
        if not 1 <= self.size <= 1_000:
            raise OverlayError(f"size: a {self.network} here has 1 to 1,000 nodes, not {self.size}")
        found = GENERATORS[self.network](self.size, Random(self.seed))  # noqa: S311  # a graph, not a secret
        return Topology((f"n{i}" for i in found.nodes), ((f"n{a}", f"n{b}") for a, b in found.edges))


def _topology_of(links: tuple[str, ...], nodes: dict[str, PlannedNode]) -> Topology:
    edges: list[tuple[str, str]] = []
    for place, link in enumerate(links):
        first, hyphen, second = link.partition("-")
        if not hyphen or not first or not second or first == second:
            raise OverlayError(f'links[{place}]: {link!r} is no link; write two names such as "ana-bruno"')
        edges.append((first, second))
    return Topology((*nodes, *(name for edge in edges for name in edge)), edges)


def check_protocol(plan: Plan) -> None:
    """Raise a RecadoError unless the plan's protocol exists, has these settings and can do what nodes are to do."""
    protocol = find_protocol(plan.protocol)
    protocol.configure(plan.settings).require_live()
    if any(node.publishes for node in plan.nodes.values()):
        protocol.require("become_publisher")
    if any(node.candidate for node in plan.nodes.values()):
        protocol.require("become_candidate")
    for text in (*plan.subscribes, *(text for node in plan.nodes.values() for text in node.subscribes)):
        parse(text)


def read_plan(path: Path, protocol: str = "") -> Plan:
    """The plan in a topology file, or the same for another protocol; an OverlayError names the file and the place."""
    try:
        plan = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Plan)
        check_name(plan.overlay)
        plan.topology()
        plan = msgspec.structs.replace(plan, protocol=protocol or plan.protocol)
        check_protocol(plan)
    except OSError as error:
        raise OverlayError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OverlayError(f"{path}: not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise OverlayError(f"{path}: {error}") from None
    except RecadoError as error:
        raise OverlayError(f"{path}: {error}") from None
    return plan


# --- Ports for nodes that are started later, and may be started again ------------------------------------------------
#
# The system chooses a port from the range that outgoing connections get theirs from, and everybody who asks for any
# port. Between the choice and the start of the node, or while a killed node is away, somebody else may be given it. So
# ports are drawn from below that range.


_LOWEST = 10_000
_USUAL_END = 32_768
_TRIALS = 1_000


def free_address(text: str, stack: ExitStack) -> Address:
    """The address, with a free port if it has none; the port is held until the stack is left."""
    address = read_address(text)
    if address.port:
        return address
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    held = stack.enter_context(socket.socket(family))
    return Address(address.host, _bind(held, address.host))


def _bind(held: socket.socket, host: str) -> int:
    end = _end()
    for _ in range(_TRIALS):
        port = _LOWEST + secrets.randbelow(end - _LOWEST)
        try:
            held.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise OverlayError(f"cannot listen on {host}: {reason_of(error)}") from None
        else:
            return port
    raise OverlayError(f"{host} has no free port between {_LOWEST} and {end}; give nodes ports of their own")


def _end() -> int:
    """Where the ports begin that the system hands out; 32,768 where it does not tell, or leaves too few below."""
    try:
        end = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_END
    return end if end > 2 * _LOWEST else _USUAL_END


# --- Many nodes on this machine, for experiments: processes are started, watched until all links are up, and stopped

FILE = "launch.json"
PATIENCE_SECONDS = 5.0
COME_UP_SECONDS, PROCESS_SECONDS = 1.0, 0.5
"""When nodes are started one after another, processes have so long to come up first: all, and more for each."""


class LaunchedNode(msgspec.Struct):
    name: str
    listen: str
    dials: list[str]
    links: list[str]
    publishes: tuple[str, ...] = ()
    process: int = 0
    candidate: tuple[str, ...] = ()
    subscribes: tuple[str, ...] = ()
    founds: bool = False
    """Is it the first node, which joins nobody?"""
    begins: float = 0.0
    """When it starts, by the clock on the wall; 0: with its process."""


class Launch(msgspec.Struct):
    overlay: str
    key_file: str
    settings: dict[str, Any]
    nodes: dict[str, LaunchedNode]
    protocol: str = DEFAULT
    pace: float = 0.0

    @property
    def joins(self) -> bool:
        """Do nodes join by asking somebody, or have they links that come up?"""
        return find_protocol(self.protocol).contact == "anyone"

    @property
    def folder(self) -> Path:
        return overlay_folder(self.overlay)

    def socket(self, name: str) -> Path:
        return socket_path(self.overlay, name)

    def save(self) -> None:
        files.replace(self.folder / FILE, msgspec.json.encode(self))


def read_launch(overlay: str) -> Launch:
    """How the overlay was started; an OverlayError if it was not."""
    path = runtime() / check_name(overlay) / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Launch)
    except FileNotFoundError:
        raise OverlayError(f"no overlay {overlay!r} was started here; see: recado overlay up") from None
    except msgspec.DecodeError as error:
        raise OverlayError(f"{path} cannot be read: {error}") from None


def new_launch(plan: Plan, beside: Path) -> Launch:
    """Addresses for every node; ports that the plan leaves open are chosen by the system."""
    topology = plan.topology()
    names = [str(node) for node in topology.nodes]
    with ExitStack() as stack:  # all ports are held until all are chosen, so that no two are the same
        addresses = {n: free_address(plan.nodes[n].listen if n in plan.nodes else "127.0.0.1:0", stack) for n in names}
    key_file = str((beside / plan.key_file).resolve()) if plan.key_file else ""
    joins = find_protocol(plan.protocol).contact == "anyone"
    nodes = {}
    for place, name in enumerate(names):
        links = [str(other) for other in topology.neighbours(name)]
        if joins:
            dials = [addresses[other] for other in links or names[:1] if other != name]
        else:
            dials = [addresses[str(second)] for first, second in topology.edges if first == name]
        nodes[name] = LaunchedNode(
            name,
            str(addresses[name]),
            [str(address) for address in dials],
            links,
            plan.nodes[name].publishes if name in plan.nodes else (),
            candidate=plan.nodes[name].candidate if name in plan.nodes else (),
            subscribes=plan.filters(name, place),
        )
    return Launch(plan.overlay, key_file, plan.settings, nodes, plan.protocol, plan.pace)


def relaunch(plan: Plan) -> Launch | None:
    """The launch of the overlay if some of its nodes run, so that the missing ones come back as they were."""
    try:
        launch = read_launch(plan.overlay)
    except OverlayError:
        return None
    if not any(alive(launch, name) for name in launch.nodes):
        return None
    if launch.protocol != plan.protocol:
        raise OverlayError(f"overlay {plan.overlay!r} runs protocol {launch.protocol!r}; first: recado overlay down")
    topology = plan.topology()
    if {str(n): [*map(str, topology.neighbours(n))] for n in topology.nodes} != {
        node.name: node.links for node in launch.nodes.values()
    }:
        raise OverlayError(f"overlay {plan.overlay!r} runs with other nodes or links; first: recado overlay down")
    return launch


def make_nodes(launch: Launch, folder: Path, names: Iterable[str]) -> list[tuple[Node, Path]]:
    """The nodes of a process, as the launch says."""
    key = read_key(Path(launch.key_file)) if launch.key_file else b""
    chosen = [launch.nodes[name] for name in names]
    limits = share_limits(OVERLAY_LIMITS, len(chosen))
    nodes = []
    for node in chosen:
        state = folder / "state" / node.name
        subscriptions = [
            Subscription(f"{node.name}-{number}", parse(text)) for number, text in enumerate(node.subscribes, 1)
        ]
        live = Node(
            node.name,
            listen=node.listen,
            peers=[] if node.founds else node.dials,
            overlay=launch.overlay,
            protocol=launch.protocol,
            settings=launch.settings,
            key=key,
            state=state,
            subscriptions=subscriptions,
            limits=limits,
        )
        nodes.append((live, launch.socket(node.name)))
    return nodes


def share_limits(limits: OverlayLimits, nodes: int) -> OverlayLimits:
    """Nodes of one process remember together about as much of their stories as one would alone."""
    return msgspec.structs.replace(
        limits, story_steps=max(64, limits.story_steps // nodes), story_bytes=max(65_536, limits.story_bytes // nodes)
    )


# -- begin


def start(launch: Launch, processes: int = 0, timeout_seconds: float = 60.0, fresh: bool = True) -> list[str]:
    """Start what does not run yet and wait until every link is up, or every node has joined; who was started.

    If none ran before and that fails, none is left running.
    """
    missing = [name for name in launch.nodes if not alive(launch, name)]
    if fresh and len(missing) == len(launch.nodes):
        shutil.rmtree(launch.folder / "state", ignore_errors=True)
    (launch.folder / "logs").mkdir(exist_ok=True)
    groups = len(missing) if processes <= 0 else min(processes, len(missing))
    first = time.time() + COME_UP_SECONDS + PROCESS_SECONDS * groups
    for place, name in enumerate(missing):
        node = launch.nodes[name]
        node.founds = launch.joins and place == 0 and len(missing) == len(launch.nodes)
        node.begins = first + place / launch.pace if launch.pace else 0.0
    launch.save()
    try:
        _start_nodes(launch, missing, groups, timeout_seconds)
    except BaseException:
        if len(missing) == len(launch.nodes):
            stop(launch)
        raise
    return missing


def _start_nodes(launch: Launch, names: list[str], groups: int, timeout_seconds: float) -> None:
    for number in range(groups):
        _start_process(launch, names[number::groups])
    launch.save()
    pace_seconds = len(names) / launch.pace if launch.pace else 0.0
    _wait(lambda waiting: missing_links(launch, waiting), launch, timeout_seconds + pace_seconds)
    if launch.joins:  # such nodes look after each other all the time, so it is never quiet
        return
    wait_until_quiet(launch)
    for name in names:
        for type in launch.nodes[name].publishes:
            _become_publisher(launch, name, type)
        for type in launch.nodes[name].candidate:
            ask(launch.socket(name), "become-candidate", type=type)
    wait_until_quiet(launch)


def wait_until_quiet(launch: Launch) -> None:
    """Wait until nothing is on its way between the nodes."""
    with OverlayClient(map(launch.socket, launch.nodes)) as client:
        client.wait_until_quiet()


def alive(launch: Launch, name: str) -> bool:
    try:
        ask(launch.socket(name), "count", timeout_seconds=PATIENCE_SECONDS)
    except OverlayError:
        return False
    return True


def _start_process(launch: Launch, names: list[str]) -> None:
    log = str(launch.folder / "logs" / f"{names[0]}.log")
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "recado.overlay.launch", str(launch.folder), *names],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,  # so that Ctrl-C in the terminal of `overlay up` does not reach the nodes
    )
    for name in names:
        launch.nodes[name].process = pid


def missing_links(launch: Launch, nodes: Iterable[str] | None = None) -> dict[str, list[str]]:
    """What is still missing, by node: it does not answer, has not joined, or has links that are not up."""
    missing: dict[str, list[str]] = {}
    joins = launch.joins
    for name in launch.nodes if nodes is None else nodes:
        try:
            count = ask(launch.socket(name), "count")
        except OverlayError:
            missing[name] = [name]
            continue
        if joins and not count["joined"]:
            missing[name] = [name]
        elif lacking := [other for other in launch.nodes[name].links if not joins and other not in count["links"]]:
            missing[name] = [f"{name}-{other}" for other in lacking]
    return missing


def _become_publisher(launch: Launch, name: str, event_type: str) -> None:
    if event_type not in ask(launch.socket(name), "show")["machine"].get("publishes", ()):
        ask(launch.socket(name), "become-publisher", type=event_type)


def _wait(missing: Callable[[Iterable[str]], dict[str, list[str]]], launch: Launch, timeout_seconds: float) -> None:
    """Wait until nothing is missing of any node; each is asked until it lacks nothing."""
    end = time.monotonic() + timeout_seconds
    waiting: Iterable[str] = launch.nodes
    while waiting := missing(waiting):
        dead = [node for node in launch.nodes.values() if node.process and not _runs(node.process)]
        if dead or time.monotonic() > end:
            names = ", ".join(node.name for node in dead) or ", ".join([*chain(*waiting.values())][:5])
            what = "ended at once" if dead else f"not there after {timeout_seconds:g} s"
            logs = launch.folder / "logs"
            tail = _tail(logs / f"{dead[0].name}.log") if dead else ""
            raise OverlayError(f"{names}: {what}; the logs are in {logs}{tail}")
        time.sleep(0.05 + len(waiting) / 1_000)


def _tail(log: Path) -> str:
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        return f"\n  {lines[-1]}" if lines else ""
    return ""


# -- end


def stop(launch: Launch, timeout_seconds: float = 20.0) -> int:
    """Ask every node to stop, and end the processes that do not; how many nodes were running."""
    asked = 0
    for name in launch.nodes:
        with suppress(OverlayError):
            ask(launch.socket(name), "stop", timeout_seconds=PATIENCE_SECONDS)
            asked += 1
    pids = list(dict.fromkeys(node.process for node in launch.nodes.values() if node.process))
    _signal(pids, signal.SIGTERM, launch.folder)  # for those that have no socket yet
    end = time.monotonic() + timeout_seconds
    while any(_runs(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.02)
    _signal(pids, signal.SIGKILL, launch.folder)
    for name in launch.nodes:
        launch.socket(name).unlink(missing_ok=True)
    (launch.folder / FILE).unlink(missing_ok=True)
    return asked


def _signal(pids: Iterable[int], number: signal.Signals, folder: Path) -> None:
    for pid in pids:
        if _is_host(pid, folder):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _runs(pid: int) -> bool:
    """Is there such a process? One of our own that has ended is laid to rest by the question."""
    with suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # the number belongs to somebody else by now
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Has it ended, and only waits for somebody to ask how? Where there is no /proc, this is not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[:1] == [b"Z"]


def _is_host(pid: int, folder: Path) -> bool:
    """Is the process really one of this overlay's? Numbers are used again."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"recado.overlay.launch" in words and os.fsencode(folder) in words


# --- Run nodes in this process until they are told to stop: by a signal, over the control socket, or by a failure
#
# As a program, ``python -m recado.overlay.launch FOLDER NODE…`` runs nodes of the overlay that was launched in the
# folder.


log = logging.getLogger("recado.overlay")


def log_to_stderr(level: int = logging.INFO) -> None:
    """One line for whatever happens to a node."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(level)


async def run_nodes(nodes: Iterable[tuple[Node, Path]], begins: Mapping[str, float] | None = None) -> int:
    """Each node with its control socket. Exit code 0 if all were told to stop, 1 if one failed.

    ``begins`` is when a node of a name starts, by the clock on the wall.
    """
    signals = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.set)
    now = time.time()
    waits = {name: begin - now for name, begin in (begins or {}).items()}
    running = [asyncio.create_task(_run_one(node, path, signals, waits.get(node.name, 0.0))) for node, path in nodes]
    try:
        return max(await asyncio.gather(*running))
    finally:
        signals.set()
        await asyncio.gather(*running, return_exceptions=True)


async def _run_one(node: Node, path: Path, signals: asyncio.Event, wait_seconds: float) -> int:
    control = control_of(node, path)
    await control.claim()
    if wait_seconds > 0:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                await signals.wait()
                return 0
    try:
        await node.start()
        await control.start()
        waits = [asyncio.create_task(event.wait()) for event in (signals, node.stopping)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
    finally:
        await control.close()
        await node.stop()
    return 1 if node.failure else 0


def main(arguments: list[str]) -> int:

    folder, *names = arguments
    log_to_stderr()
    try:
        launch = msgspec.json.decode((Path(folder) / FILE).read_bytes(), type=Launch)
        begins = {name: launch.nodes[name].begins for name in names}
        return asyncio.run(run_nodes(make_nodes(launch, Path(folder), names), begins))
    except RecadoError as error:
        log.critical("%s", error)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
