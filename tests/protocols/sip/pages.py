"""The parts of docs/sip.md that are made from the program itself. ``python tests/protocols/sip/pages.py`` writes them.

A part stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.
"""

import re
import sys
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).parents[2]))

from protocols.sip.cast import BROKER, Scene, media
from protocols.sip.world import at
from recado.net.sip import StreamLimits
from recado.protocols.sip.limits import CLASSIC, LAB, LIMITS
from recado.protocols.sip.transactions import START, TABLE

PAGE = Path(__file__).parents[3] / "docs" / "sip.md"
NAMES = {at(7): "agent", at(8): "agent (moved)", at(100): "home", at(1): "broker"}


def diagram(kind):
    """A state diagram of one transaction machine."""
    start, actions = START[kind]
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {start}: {', '.join(actions)}"]
    for (state, what), (after, actions) in TABLE[kind].items():
        done = f" / {', '.join(actions)}" if actions else ""
        lines.append(f"    {state} --> {'[*]' if after == 'terminated' else after}: {what}{done}")
    return "\n".join([*lines, "```"])


def story():
    """Register, open, move, end: through the home server, in virtual time."""
    scene = Scene(1, home=True)
    scene.ask(scene.broker, "register")
    scene.run(1)
    scene.sent.clear()
    scene.ask(scene.agent, "register")
    scene.run(2)
    call = scene.ask(scene.agent, "invite", BROKER, with_key(media(7)))
    scene.run(3)
    scene.move(scene.agent, at(8))
    scene.ask(scene.agent, "reinvite", call, with_key(media(8)))
    scene.run(4)
    scene.ask(scene.agent, "bye", call)
    scene.run(5)
    return scene


def with_key(offered):
    """As a device offers it: with the key of its packets, which is another one for each session."""
    return msgspec.structs.replace(offered, key=bytes.fromhex("0f1e2d3c4b5a69788796a5b4c3d2e1f0"))


def flow():
    lines = [
        "```mermaid",
        "sequenceDiagram",
        *(f"    participant {name}" for at_, name in NAMES.items() if at_ != at(8)),
    ]
    for _, source, to, data in story().sent:
        first = data.split(b"\r\n")[0].decode()
        text = first.removeprefix("SIP/2.0 ").removesuffix(" SIP/2.0")
        arrow = "-->>" if first.startswith("SIP/") else "->>"
        cseq = re.search(r"CSeq: (\d+ \w+)", data.decode())[1]
        label = f"{text} ({cseq})" if first.startswith("SIP/") else text
        lines.append(f"    {name_of(source)}{arrow}{name_of(to)}: {label}")
    return "\n".join([*lines, "```"])


def name_of(address):
    return NAMES[address].removesuffix(" (moved)")


def message_of(method, number):
    found = [
        data for _, source, _, data in story().sent if data.startswith(method.encode()) and source in (at(7), at(8))
    ]
    return "```\n" + found[number].decode().replace("\r\n", "\n").rstrip() + "\n```"


def table(*structs, heads):
    lines = ["| name | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name, first in msgspec.structs.asdict(structs[0]).items():
        if not isinstance(first, msgspec.Struct):
            values = [getattr(one, name) for one in structs]
            lines.append(f"| `{name}` | " + " | ".join(f"{value:,}" for value in values) + " |")
    return "\n".join(lines)


PARTS = {
    "flow": flow,
    "register": lambda: message_of("REGISTER", 1),
    "invite": lambda: message_of("INVITE", 0),
    "invite client": lambda: diagram("invite client"),
    "client": lambda: diagram("client"),
    "invite server": lambda: diagram("invite server"),
    "server": lambda: diagram("server"),
    "timers": lambda: table(CLASSIC, LAB, heads=("classic (seconds)", "lab (seconds)")),
    "limits": lambda: table(LIMITS, heads=("default",)),
    "streams": lambda: table(StreamLimits(), heads=("default",)),
}


def written(text):
    for name, make in PARTS.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        assert rest, f"docs/sip.md has no part {name}"
        text = f"{before}{begin}\n{make()}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
