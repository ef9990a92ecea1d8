"""How trees, notifications and steps are drawn, also where not everything is known."""

import io

from rich.console import Console

from recado.cli.overlay import item_line, node_view, step_lines, tree_view
from recado.protocols.pubsub import describe_roles


def drawn(*pieces):
    out = Console(file=io.StringIO(), width=100, highlight=False, markup=False)
    for piece in pieces:
        out.print(piece)
    return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())


def row(next, origin):
    return {"next": next.split(), "origin": origin.split()}


def test_a_tree_with_several_publishers():
    rows = {"k": row("k", "j l"), "j": row("k", "c"), "l": row("k", "l"), "c": row("j", "c b"), "b": row("c", "b")}
    assert drawn(tree_view("s", rows)).splitlines() == [
        "tree of s",
        "└── k  subscriber",
        "    ├── j",
        "    │   └── c  publisher",
        "    │       └── b  publisher",
        "    └── l  publisher",
    ]


def test_what_is_on_other_machines_is_named_as_far_as_it_is_known():
    rows = {"j": row("k", "c"), "x": row("y", "j z")}
    assert drawn(tree_view("s", rows)).splitlines() == [
        "tree of s",
        "├── j",
        "│   └── c  on another machine",
        "└── x",
        "    ├── j",
        "    └── z  on another machine",
    ]


def test_a_damaged_tree_that_goes_in_circles_is_drawn_once():
    rows = {"k": row("k", "j"), "j": row("k", "l"), "l": row("j", "j")}
    assert drawn(tree_view("s", rows)).splitlines()[-1].strip("│└─ ") == "j"


def test_notifications_gaps_and_facts_on_a_line():
    event = {"id": "t-1", "type": "Tick", "Price": 24.5, "tags": ["a", "b"], "long": "x" * 200}
    line = item_line({"event": event, "subscriptions": ["s"]}).plain
    assert line.startswith('t-1  Tick  Price=24.5  tags=["a","b"]  long=xxx')
    assert line.endswith("x…")
    assert item_line({"gap": 3, "events": ["a", "b", "c"]}).plain.startswith("3 events were dropped")
    assert item_line({"fact": "Unpublished", "subscription": "s"}).plain == "Unpublished subscription=s"


def test_steps_of_every_sort():
    step = {"step": 1, "time": 0.5, "what": "TimerFired", "timer": ["rebuild", "s"]}
    effects = [
        {"do": "Send", "to": "b", "kind": "Q", "message": [], "why": ""},
        {"do": "SetTimer", "timer": "t", "after_seconds": 2.0},
        {"do": "Report", "kind": "Settled", "message": {"subscription": "s", "published": True}},
    ]
    assert [line.plain for line in step_lines({**step, "then": effects})] == [
        '00:00:00.500  TimerFired  {"timer":["rebuild","s"]}',
        "    -> b  Q",
        '    SetTimer  {"timer":"t","after_seconds":2.0}',
        '    reports Settled  {"subscription":"s","published":true}',
    ]


def test_a_node_that_has_all_roles():
    counters = {"sent": {}, "received": {}, "failed": {}, "sent_bytes": 0, "received_bytes": 0}
    machine = {"publishes": ["x", "y"], "subscriptions": {"s": {}}, "tables": {}}
    shown = {"node": "a", "overlay": "o", "protocol": "trees", "address": "127.0.0.1:1", "links": {}}
    shown |= {"counters": counters, "machine": machine, "roles": describe_roles(machine)}
    text = drawn(*node_view(shown, {}))
    assert "publishes x, y; subscribed: s" in text
