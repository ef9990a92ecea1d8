"""The page of a recorded run: one HTML file with everything in it, for a browser without a network.

What is drawn is arranged here, once: names become numbers, and what happened becomes flat arrays in the order of time,
in which the page finds a time by halving. The data stand in a block that is not run as a script, with all characters
escaped that could end it; the page only ever shows them as text; and its policy lets no other script run than its own.
"""

from __future__ import annotations

import base64
import json
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from recado.sim.drawing.layout import arrange
from recado.sim.recording import (
    Delivered,
    Down,
    Drop,
    Hold,
    LinkLine,
    Move,
    NodeLine,
    Published,
    Recording,
    Role,
    Sent,
    Subscribed,
    Ties,
    Up,
)

UP, DOWN, ROLE, MOVE, LINK, UNLINK, TIES, HOLD, DROP = range(9)
"""The kinds of changes, as the page knows them."""


def draw_page(recording: Recording, seed: int = 0) -> str:
    """The whole page. The same recording and seed give the same page."""
    style, script, frame = (_part(name) for name in ("page.css", "page.js", "page.html"))
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": escape(recording.header.title),
        "style": style,
        "script": script,
        "data": embed(page_data(recording, seed)),
    }
    pieces = frame.split("{{")
    return pieces[0] + "".join(parts[name] + rest for name, _, rest in (piece.partition("}}") for piece in pieces[1:]))


def _part(name: str) -> str:
    return files("recado.sim.drawing").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(sha256(text.encode()).digest()).decode()


def embed(data: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end the element or a line."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class Numbers:
    """Names in the order in which they came, each with its number."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.of: dict[str, int] = {}
        for name in names:
            self(name)

    def __call__(self, name: str) -> int:
        return self.of.setdefault(name, len(self.of))

    @property
    def names(self) -> list[str]:
        return list(self.of)


def place_nodes(recording: Recording, seed: int = 0) -> dict[str, tuple[float, float]]:
    """Where each node is drawn at first: its place, or one that follows from links and ties."""
    nodes: list[NodeLine] = list(recording.of(NodeLine))
    if nodes and all(node.x is not None and node.y is not None for node in nodes):
        return {node.name: (node.x or 0.0, node.y or 0.0) for node in nodes}
    number = Numbers(node.name for node in nodes)
    edges = [(number(line.first), number(line.second)) for line in recording.of(LinkLine)]
    if not edges:  # the last ties of each node: those that it had before would pull families into each other
        last: dict[str, tuple[str, ...]] = {}
        for line in recording.of(Ties):
            if line.to:
                last[line.node] = line.to
        edges = [(number(node), number(to)) for node, ties in last.items() for to in ties]
    return dict(zip(number.names, arrange(len(nodes), edges, seed), strict=True))


def page_data(recording: Recording, seed: int = 0) -> dict[str, Any]:
    """What the page's script reads; arrays are base64 of little-endian numbers."""
    header = recording.header
    places = place_nodes(recording, seed)
    nodes = Numbers(places)
    placed = header.range_metres is not None
    publications = Numbers(line.id for line in recording.of(Published))
    subscriptions = Numbers(line.id for line in recording.of(Subscribed))
    about_of = _about(publications, subscriptions)
    changes, roles, lists, moves = _changes(recording, nodes, subscriptions)
    return {
        "title": header.title,
        "protocol": header.protocol,
        "configuration": header.configuration,
        "run": header.run,
        "seed": str(header.seed),
        "unit": header.unit,
        "range": header.range_metres,
        "placed": placed,
        "end": header.end,
        "nodes": nodes.names,
        "x": _floats(place[0] for place in places.values()),
        "y": _floats(place[1] for place in places.values()),
        "classes": [[name, total.count, total.bytes, total.every] for name, total in header.totals.items()],
        "deliveries": header.deliveries,
        "notes": list(header.notes),
        "roles": roles,
        "lists": lists,
        "moves": _floats(moves),
        "changes": changes,
        "subscriptions": _describe(recording.of(Subscribed), subscriptions, nodes),
        "publications": _describe(recording.of(Published), publications, nodes),
        "sent": _sent(recording, nodes, about_of),
        "delivered": _delivered(recording, nodes, publications),
    }


def _describe(lines: Iterable[Any], numbers: Numbers, nodes: Numbers) -> list[list[Any]]:
    """Name, text, node and time of each; what is held without having been asked for has no more than its name."""
    found: list[list[Any]] = [[name, "", -1, None] for name in numbers.names]
    for line in lines:
        found[numbers(line.id)] = [line.id, line.text, nodes(line.node), line.t]
    return found


def _about(publications: Numbers, subscriptions: Numbers) -> Callable[[Sent], int]:
    """A publication as 0, 1, …, a subscription as -2, -3, …, nothing as -1."""

    def about(line: Sent) -> int:
        if line.event in publications.of:
            return publications.of[line.event]
        if line.subscription in subscriptions.of:
            return -2 - subscriptions.of[line.subscription]
        return -1

    return about


def _sent(recording: Recording, nodes: Numbers, about_of: Callable[[Sent], int]) -> dict[str, Any]:
    lines: list[Sent] = list(recording.of(Sent))
    kinds, whys, classes = Numbers(), Numbers([""]), Numbers(recording.header.totals)
    starts, heard = [0], array("i")
    end = recording.header.end
    longest = max((line.arrived - line.t for line in lines if line.arrived is not None), default=0.0)

    def took(line: Sent) -> float:
        """How long it was under way; -1 if it was lost, which is not known of what was sent just before the end."""
        if line.arrived is not None:
            return line.arrived - line.t
        return longest if line.t + longest > end else -1.0

    for line in lines:
        heard.extend(nodes(name) for name in line.heard)
        starts.append(len(heard))
    return {
        "t": _doubles(line.t for line in lines),
        "node": _ints(nodes(line.node) for line in lines),
        "to": _ints(-1 if line.to is None else nodes(line.to) for line in lines),
        "class": _ints(classes(line.traffic_class) for line in lines),
        "kind": _ints(kinds(line.kind) for line in lines),
        "why": _ints(whys(line.why) for line in lines),
        "number": _ints(line.number for line in lines),
        "bytes": _ints(line.bytes for line in lines),
        "about": _ints(about_of(line) for line in lines),
        "took": _floats(took(line) for line in lines),
        "reached": _ints(line.reached for line in lines),
        "starts": _ints(starts),
        "heard": _ints(heard),
        "kinds": kinds.names,
        "whys": whys.names,
    }


def _delivered(recording: Recording, nodes: Numbers, publications: Numbers) -> dict[str, str]:
    lines: list[Delivered] = list(recording.of(Delivered))
    return {
        "t": _doubles(line.t for line in lines),
        "node": _ints(nodes(line.node) for line in lines),
        "event": _ints(publications.of.get(line.event, -1) for line in lines),
    }


def _changes(
    recording: Recording, nodes: Numbers, subscriptions: Numbers
) -> tuple[dict[str, str], list[str], list[list[int]], list[float]]:
    """What changes the picture: time, kind, node and an argument each; with the tables that arguments point into."""
    rows: list[tuple[float, int, int, int]] = []
    roles = Numbers([""])
    lists: list[list[int]] = []
    moves: list[float] = []
    for line in recording.lines:
        match line:
            case Up(t, node):
                rows.append((t, UP, nodes(node), 0))
            case Down(t, node):
                rows.append((t, DOWN, nodes(node), 0))
            case Role(t, node, role):
                rows.append((t, ROLE, nodes(node), roles(role)))
            case Move(t, node, x, y):
                rows.append((t, MOVE, nodes(node), len(moves) // 2))
                moves += [x, y]
            case LinkLine(t, first, second, up):
                rows.append((t, LINK if up else UNLINK, nodes(first), nodes(second)))
            case Ties(t, node, to):
                rows.append((t, TIES, nodes(node), len(lists)))
                lists.append([nodes(name) for name in to])
            case Hold(t, node, subscription, to):
                rows.append((t, HOLD, nodes(node), len(lists)))
                lists.append([subscriptions(subscription), *(nodes(name) for name in to)])
            case Drop(t, node, subscription):
                rows.append((t, DROP, nodes(node), subscriptions(subscription)))
    return (
        {
            "t": _doubles(row[0] for row in rows),
            "kind": _ints(row[1] for row in rows),
            "node": _ints(row[2] for row in rows),
            "what": _ints(row[3] for row in rows),
        },
        roles.names,
        lists,
        moves,
    )


# --- Flat arrays as text ---------------------------------------------------------------------------------------------


def _doubles(values: Iterable[float]) -> str:
    return _text(array("d", values))


def _floats(values: Iterable[float]) -> str:
    return _text(array("f", values))


def _ints(values: Iterable[int] | Sequence[int]) -> str:
    return _text(array("i", values))


def _text(values: array[Any]) -> str:
    if sys.byteorder == "big":
        values.byteswap()
    return base64.b64encode(values.tobytes()).decode()
