"""The pages about the ways in: every message that they show is one, and every operation and reason is named."""

import re
from pathlib import Path

import msgspec
import pytest

from recado.protocols.session import messages as m
from recado.server.http.operations import OPERATIONS
from recado.server.websocket import _CODES

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(agent|service)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown():
    text = (DOCS / "websocket.md").read_text()
    return [(found[1], line) for found in BLOCK.finditer(text) for line in found[2].splitlines()]


@pytest.mark.parametrize(("side", "line"), shown())
def test_every_message_shown_can_be_read_and_written(side, line):
    [message] = (m.from_agent if side == "agent" else m.from_service)(line)
    written = msgspec.json.decode(m.encode([message]))
    assert written == msgspec.json.decode(line)


def test_no_message_is_left_out():
    kinds = {msgspec.json.decode(line)["type"] for _, line in shown()}
    expected = {kind.__struct_config__.tag for kind in (*m.FromAgent.__args__, *m.FromService.__args__)}
    assert kinds == expected


def test_every_reason_to_close_is_explained():
    text = (DOCS / "websocket.md").read_text()
    for reason, code in _CODES.items():
        assert f"| `{reason}` | {code} |" in text


def test_every_operation_is_named():
    text = (DOCS / "http.md").read_text() + (DOCS / "webhooks.md").read_text()
    for operation in OPERATIONS:
        path = operation.path.removeprefix("/v1")
        assert path in text or path.replace("{user}", "me") in text, operation.path
