"""The lexicon, loaded once, and a tiny one of our own that tests can damage."""

import pytest

from recado.semantics.engine import Semantics
from recado.semantics.lexicon.information import load_lexicon

LICENCE = "  1 a licence, which every line of begins with two blanks  \r\n"
DATA = {
    "data.noun": """\
00000100 03 n 01 entity 0 001 ~ 00000200 n 0000 | what there is
00000200 03 n 02 animal 0 beast 1 001 @ 00000100 n 0000 | a living thing
00000300 03 n 01 cat 0 001 @ 00000200 n 0000 | it purrs
00000400 03 n 02 dog 0 domestic_dog 0 001 @ 00000200 n 0000 | it barks
00000500 03 n 02 price 0 Cost 0 001 @ 00000100 n 0000 | what is paid
00000600 03 n 01 Rex 0 001 @i 00000400 n 0000 | a certain dog
""",
    "data.verb": """\
00000100 30 v 01 move 0 001 @ 00000200 v 0000 01 + 02 00 | a cycle, as the real one has
00000200 30 v 01 go 0 001 @ 00000100 v 0000 01 + 02 00 | the other half
00000300 30 v 01 cost 0 000 01 + 08 00 | a verb without anything above it
""",
    "data.adj": "00000100 00 a 02 big(p) 0 large 0 000 | not small\n",
    "data.adv": "00000100 02 r 01 fast 0 000 | quickly\n",
    "index.noun": """\
animal n 1 1 @ 1 1 00000200
beast n 1 1 @ 1 0 00000200
cat n 1 1 @ 1 1 00000300
cost n 1 1 @ 1 1 00000500
dog n 1 1 @ 1 1 00000400
domestic_dog n 1 1 @ 1 0 00000400
entity n 1 1 ~ 1 0 00000100
price n 1 1 @ 1 0 00000500
rex n 1 1 @i 1 0 00000600
""",
    "index.verb": """\
cost v 1 0 1 1 00000300
go v 1 1 @ 1 1 00000200
move v 1 1 @ 1 1 00000100
""",
    "index.adj": "big a 1 0 1 1 00000100\nlarge a 1 0 1 0 00000100\n",
    "index.adv": "fast r 1 0 1 0 00000100\n",
    "noun.exc": "kine cow\nkittens cat\n",
    "verb.exc": "went go\n",
    "adj.exc": "bigger big\n",
    "adv.exc": "faster fast\n",
    "cntlist.rev": "cat%1:03:00:: 1 7\ndog%1:03:00:: 1 5\ngo%2:30:00:: 1 9\nbig%3:00:00:: 1 2\ncost%2:30:00:: 1 3\n",
}
COUNTS = """\
wnver::tiny
100n 40 ROOT
200n 20
300n 8
400n 6
500n 10
600n 2
100v 10
200v 10
300v 5 ROOT
"""


def write_tiny(folder, ends="\r\n"):
    """A lexicon of ten concepts in the format of the package wn, with its line ends."""
    for name, text in DATA.items():
        path = folder / "wordnet-3.0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        head = LICENCE if name.startswith(("data", "index")) else ""
        path.write_bytes((head + text.replace("\n", ends)).encode())
    counts = folder / "wordnet_ic" / "ic-semcor.dat"
    counts.parent.mkdir(parents=True, exist_ok=True)
    counts.write_bytes(COUNTS.replace("\n", ends).encode())
    return folder


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The folder of a tiny lexicon; caches and data go to folders of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "data"))
    return write_tiny(tmp_path / "wn")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder that is ours alone."""
    monkeypatch.setenv("RECADO_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.fixture(scope="session")
def lexicon():
    return load_lexicon()


@pytest.fixture(scope="session")
def semantics():
    """Everything that is installed, nothing that a person gave, and no cache."""
    return Semantics()
