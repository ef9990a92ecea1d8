"""One moment of a recorded run as an SVG picture, for documents: nodes, links, and what the choice asks for.

What is drawn has the colours, dashes and shapes of the page. A chosen subscription shows who holds something of it and,
where nodes know it, the way to the subscriber; a chosen publication all that was sent about it up to that moment.
Without either, the picture shows what is under way.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from html import escape
from itertools import combinations

import msgspec

from recado.sim.drawing.page import place_nodes
from recado.sim.recording import (
    Delivered,
    Down,
    Drop,
    Hold,
    LinkLine,
    Move,
    Published,
    Recording,
    RecordingError,
    Role,
    Sent,
    Subscribed,
    Ties,
    Up,
)

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5548f", "#b8860b", "#3a9bdc", "#6b4fa0")
OTHER, INK, SOFT, LINE, ACCENT = "#7a828c", "#1b1f24", "#5a6370", "#d6dae0", "#0b57a4"
DASHES = ("", "7 3", "2 3", "8 3 2 3")
WIDTH, HEIGHT, MARGIN, LEGEND = 640.0, 480.0, 28.0, 190.0
MOST_NAMES = 60
MOST_LINKED = 300
"""Of so many nodes on a radio it is drawn who is in range of whom."""
SVG = "http://www.w3.org/2000/svg"


class Choice(msgspec.Struct, frozen=True):
    """What a picture is to show; names that the recording does not have are an error."""

    subscription: str = ""
    publication: str = ""


def moment_of(recording: Recording, text: str) -> float:
    """A time of the run as a person writes it: a number, or ``end``."""
    try:
        time = recording.header.end if text == "end" else float(text)
    except ValueError:
        time = math.nan
    if not 0 <= time <= recording.header.end:
        raise RecordingError(f"{text!r} is no time of this run; it goes from 0 to {recording.header.end:g}, or say end")
    return time


class Moment:
    """The network at a time."""

    def __init__(self, recording: Recording, time: float, seed: int = 0) -> None:
        self.time, self.places = time, place_nodes(recording, seed)
        self.alive: dict[str, None] = {}
        self.roles: dict[str, str] = {}
        self.links: dict[tuple[str, str], None] = {}
        self.ties: dict[str, tuple[str, ...]] = {}
        self.holds: dict[str, dict[str, tuple[str, ...]]] = {}
        for line in recording.lines:
            if getattr(line, "t", 0.0) > time:
                continue
            match line:
                case Up(_, node):
                    self.alive[node] = None
                case Down(_, node):
                    self.alive.pop(node, None)
                case Role(_, node, role):
                    self.roles[node] = role
                case Move(_, node, x, y):
                    self.places[node] = (x, y)
                case LinkLine(_, first, second, True):
                    self.links[first, second] = None
                case LinkLine(_, first, second, False):
                    self.links.pop((first, second), None)
                case Ties(_, node, to):
                    self.ties[node] = to
                case Hold(_, node, subscription, to):
                    self.holds.setdefault(subscription, {})[node] = to
                case Drop(_, node, subscription):
                    self.holds.get(subscription, {}).pop(node, None)

    def held(self, choice: Choice) -> dict[str, tuple[str, ...]] | None:
        """Who holds the chosen subscription, with the next nodes to the subscriber; None if none is chosen."""
        return self.holds.get(choice.subscription, {}) if choice.subscription else None


def draw_picture(recording: Recording, time: float, choice: Choice | None = None, seed: int = 0) -> str:
    """The SVG text. The same recording, time, choice and seed give the same text."""
    choice = choice or Choice()
    _check(recording, choice)
    moment = Moment(recording, time, seed)
    look = _Look(recording, moment)
    shown = list(_show(recording, time, choice))
    parts = [
        *_lines(moment, look, recording.header.range_metres),
        *_ways(moment.held(choice) or {}, look),
        *_transmissions(shown, look, None if choice.publication else recording.header.range_metres),
        *_nodes(recording, choice, moment, look),
        *_legend(recording, choice, moment, look, shown),
    ]
    size, font = f"{WIDTH + LEGEND:g} {HEIGHT:g}", "DejaVu Sans, Helvetica, Arial, sans-serif"
    title = f"{recording.header.title} at {time:g} {recording.header.unit}".strip()
    return "\n".join(
        [
            f'<svg xmlns="{SVG}" viewBox="0 0 {size}" font-family="{font}" font-size="11" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH + LEGEND:g}" height="{HEIGHT:g}" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _check(recording: Recording, choice: Choice) -> None:
    held = {line.subscription for line in recording.of(Hold)} | {line.id for line in recording.of(Subscribed)}
    for kind, name, known in (
        ("subscription", choice.subscription, held),
        ("publication", choice.publication, {line.id for line in recording.of(Published)}),
    ):
        if name and name not in known:
            some = ", ".join(sorted(known)[:8]) or "none"
            raise RecordingError(f"the recording has no {kind} {name!r}; it has {some}{' …' if len(known) > 8 else ''}")


def _show(recording: Recording, time: float, choice: Choice) -> Iterator[Sent]:
    for line in recording.of(Sent):
        if line.t > time:
            continue
        if choice.publication:
            if line.event == choice.publication:
                yield line
        elif not choice.subscription and (line.t == time or (line.arrived is not None and line.arrived >= time)):
            yield line


class _Look:
    """From the recording to the paper: coordinates, colours, dashes and shapes."""

    def __init__(self, recording: Recording, moment: Moment) -> None:
        xs, ys = [p[0] for p in moment.places.values()] or [0.0], [p[1] for p in moment.places.values()] or [0.0]
        wide, high = max(max(xs) - min(xs), 1e-9), max(max(ys) - min(ys), 1e-9)
        self.scale_x, self.scale_y = (WIDTH - 2 * MARGIN) / wide, (HEIGHT - 2 * MARGIN) / high
        if recording.header.range_metres is not None:
            self.scale_x = self.scale_y = min(self.scale_x, self.scale_y)
        self._middle = ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)
        self._moment = moment
        totals = recording.header.totals
        families: dict[str, int] = {}
        for name, total in totals.items():
            families[_family(name)] = families.get(_family(name), 0) + total.count
        ranked = sorted(families, key=lambda family: -families[family])
        self.colours = {
            name: COLOURS[ranked.index(_family(name))] if ranked.index(_family(name)) < len(COLOURS) else OTHER
            for name in totals
        }
        same: dict[str, list[str]] = {}
        for name in totals:
            same.setdefault(_family(name), []).append(name)
        self.dashes = {name: DASHES[same[_family(name)].index(name) % len(DASHES)] for name in totals}
        last = {line.node: line.role for line in recording.of(Role) if line.role}
        counts: dict[str, int] = {}
        for role in (line.role for line in recording.of(Role) if line.role):
            counts.setdefault(role, 0)
        for role in last.values():
            counts[role] += 1
        self.ranks = {role: min(rank, 5) for rank, role in enumerate(sorted(counts, key=lambda role: -counts[role]))}
        self.size = max(2.0, min(6.0, 110 / math.sqrt(len(moment.places) + 1)))

    def at(self, node: str) -> tuple[float, float]:
        x, y = self._moment.places[node]
        return (
            WIDTH / 2 + (x - self._middle[0]) * self.scale_x,
            HEIGHT / 2 + (y - self._middle[1]) * self.scale_y,
        )


def _family(traffic_class: str) -> str:
    return traffic_class.partition(".")[0]


def _lines(moment: Moment, look: _Look, range_metres: float | None) -> Iterator[str]:
    near: list[tuple[str, str]] = []
    if range_metres is not None and len(moment.alive) <= MOST_LINKED:
        near = [
            (first, second)
            for first, second in combinations(moment.alive, 2)
            if math.dist(moment.places[first], moment.places[second]) <= range_metres
        ]
    ties = [(node, other) for node, others in moment.ties.items() for other in others]
    for pairs, colour, width in ((near, LINE, 0.6), (moment.links, LINE, 1), (ties, SOFT, 1)):
        ends = [(look.at(a), look.at(b)) for a, b in pairs if a in moment.alive and b in moment.alive]
        way = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in ends)
        if way:
            yield f'<path d="{way}" stroke="{colour}" stroke-width="{width:g}" fill="none"/>'


def _ways(held: dict[str, tuple[str, ...]], look: _Look) -> Iterator[str]:
    for node, following in held.items():
        for other in following:
            yield from _arrow(look.at(node), look.at(other), ACCENT, "", look.size)


def _transmissions(shown: Iterable[Sent], look: _Look, range_metres: float | None) -> Iterator[str]:
    for line in sorted(shown, key=lambda line: line.to is not None):  # what went to one node lies above
        colour, dash = look.colours[line.traffic_class], look.dashes[line.traffic_class]
        x, y = look.at(line.node)
        if line.to is not None:
            yield from _arrow(*_aside((x, y), look.at(line.to)), colour, dash, look.size)
            continue
        if range_metres is not None:
            radius = range_metres * look.scale_x
            yield (
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.05" '
                f'stroke="{colour}" stroke-opacity="0.35" stroke-dasharray="{dash}"/>'
            )
        yield _ring(x, y, look.size + 2.5, colour, 2)


def _nodes(recording: Recording, choice: Choice, moment: Moment, look: _Look) -> Iterator[str]:
    held = moment.held(choice)
    subscriber = next((line.node for line in recording.of(Subscribed) if line.id == choice.subscription), None)
    publisher = next((line.node for line in recording.of(Published) if line.id == choice.publication), None)
    given = {
        line.node for line in recording.of(Delivered) if line.t <= moment.time and line.event == choice.publication
    }
    for node in moment.alive:
        x, y = look.at(node)
        rank = look.ranks.get(moment.roles.get(node, ""), -1)
        faint = held is not None and node not in held
        yield _shape(rank, x, y, look.size, 0.35 if faint else 1.0)
        if held is not None and node in held:
            yield _ring(x, y, look.size + 3.5, ACCENT, 2.2)
        if node == subscriber:
            yield _ring(x, y, look.size + 6.5, ACCENT, 1.2)
        if choice.publication and node in given:
            yield _ring(x, y, look.size + 3.5, INK, 2.2)
        if node == publisher:
            yield _ring(x, y, look.size + 3.5, INK, 1.2)
            yield _ring(x, y, look.size + 6.5, INK, 1.2)
        if len(moment.places) <= MOST_NAMES:
            yield (
                f'<text x="{x + look.size + 3:.1f}" y="{y - look.size:.1f}" fill="{SOFT}" font-size="9">'
                f"{escape(node)}</text>"
            )


def _legend(recording: Recording, choice: Choice, moment: Moment, look: _Look, shown: Iterable[Sent]) -> Iterator[str]:
    time, held = moment.time, moment.held(choice)
    x, y = WIDTH + 8, MARGIN

    def text(words: str, indent: float = 24) -> str:
        return f'<text x="{x + indent:.1f}" y="{y + 4:.1f}" fill="{INK}">{escape(words)}</text>'

    unit = recording.header.unit
    yield text(f"{time:,g} {unit}" if unit else f"t = {time:,g}", 0)
    y += 22
    there = {moment.roles.get(node, "") for node in moment.alive}
    for role, rank in look.ranks.items():
        if role in there:
            yield _shape(rank, x + 8, y, 5, 1.0)
            yield text(role)
            y += 18
    for name in dict.fromkeys(line.traffic_class for line in shown):
        yield _line((x, y), (x + 18, y), look.colours[name], 2.4, look.dashes[name])
        yield text(name)
        y += 18
    if held is not None:
        yield _ring(x + 8, y, 6, ACCENT, 2.2)
        yield text(f"holds it ({len(held)})")


def _line(start: tuple[float, float], end: tuple[float, float], colour: str, width: float, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="{colour}" '
        f'stroke-width="{width:g}"{dashed}/>'
    )


def _arrow(start: tuple[float, float], end: tuple[float, float], colour: str, dash: str, size: float) -> Iterator[str]:
    length = math.dist(start, end)
    if length < 1:
        return
    ux, uy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    tip = (end[0] - ux * (size + 3), end[1] - uy * (size + 3))
    back = (tip[0] - ux * 7, tip[1] - uy * 7)
    yield _line((start[0] + ux * size, start[1] + uy * size), back, colour, 1.8, dash)
    corners = [tip, (back[0] - uy * 3.5, back[1] + ux * 3.5), (back[0] + uy * 3.5, back[1] - ux * 3.5)]
    yield f'<polygon points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}" fill="{colour}"/>'


def _aside(start: tuple[float, float], end: tuple[float, float]) -> tuple[tuple[float, float], tuple[float, float]]:
    """To the right of the line between two nodes, so that there and back are both seen."""
    length = math.dist(start, end) or 1.0
    dx, dy = -2 * (end[1] - start[1]) / length, 2 * (end[0] - start[0]) / length
    return (start[0] + dx, start[1] + dy), (end[0] + dx, end[1] + dy)


def _ring(x: float, y: float, radius: float, colour: str, width: float) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="none" stroke="{colour}" stroke-width="{width:g}"/>'
    )


CORNERS: dict[int, list[tuple[float, float]]] = {
    2: [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    3: [(0, -1.25), (1.15, 0.85), (-1.15, 0.85)],
    4: [(0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0)],
}


def _shape(rank: int, x: float, y: float, size: float, opacity: float) -> str:
    """The shapes of the page, the plainest for the role that most nodes have."""
    faint = f' opacity="{opacity:g}"' if opacity < 1 else ""
    if rank <= 0:
        return (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{0.75 * size:.1f}" fill="#ffffff" stroke="{SOFT}" '
            f'stroke-width="1.2"{faint}/>'
        )
    if rank == 1:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" fill="{INK}"{faint}/>'
    corners = CORNERS.get(rank) or [
        (d * math.sin(i * math.pi / 5), -d * math.cos(i * math.pi / 5))
        for i, d in ((i, 0.6 if i % 2 else 1.45) for i in range(10))
    ]
    points = " ".join(f"{x + size * a:.1f},{y + size * b:.1f}" for a, b in corners)
    return f'<polygon points="{points}" fill="{INK}"{faint}/>'
