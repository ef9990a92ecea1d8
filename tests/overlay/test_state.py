"""What was committed comes back; nobody else's state is taken."""

import pytest

from overlay.helpers import node, run
from recado.model.subscription import Subscription
from recado.overlay.errors import OverlayError
from recado.overlay.state import FILE, FileState


def test_what_was_committed_comes_back_as_plain_data(tmp_path):
    state = FileState(tmp_path / "deep" / "folder", "a")
    assert state.load() == {}
    state.put("one", {"x": (1, 2), "y": [None, "text", 2.5, b"bytes"]})
    state.put("two", 2)
    state.put("three", 3)
    state.put("two", 22)
    state.put("three", None)
    state.commit()
    state.close()
    again = FileState(tmp_path / "deep" / "folder", "a")
    assert again.load() == {"one": {"x": [1, 2], "y": [None, "text", 2.5, b"bytes"]}, "two": 22}
    again.close()


def test_a_folder_has_one_node_at_a_time_and_always_the_same(tmp_path):
    state = FileState(tmp_path, "a")
    state.put("k", 1)
    state.commit()
    with pytest.raises(OverlayError, match="is in use by another running node"):
        FileState(tmp_path, "a")
    state.close()
    with pytest.raises(OverlayError, match="belongs to node 'a', not to 'b'"):
        FileState(tmp_path, "b")
    FileState(tmp_path, "a").close()


def test_a_file_that_is_no_database_is_named(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a database at all, but long enough to look at" * 20)
    with pytest.raises(OverlayError, match="cannot be used: file is not a database"):
        FileState(tmp_path, "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(OverlayError, match="cannot be used"):
        FileState(tmp_path / "file", "a")


def test_a_node_gets_back_what_its_machine_saved(tmp_path):
    async def test():
        async with node("a", state=tmp_path) as a:
            await a.subscribe(Subscription("kept", type="x"), keep=True)
            await a.subscribe(Subscription("not kept", type="x"))
            await a.subscribe(Subscription("ended", type="y"))
            await a.unsubscribe("ended")
        async with node("a", state=tmp_path) as a:
            assert a.show()["machine"]["saved"] == {"kept": {"type": "x"}}
            assert a.follow("kept").subscription == "kept"
            with pytest.raises(OverlayError, match="no subscription 'not kept'; it has kept"):
                a.follow("not kept")

    run(test())
