"""What was committed comes back; nobody else's state is taken."""

import sqlite3

import pytest

from overlay.helpers import node, run
from recado.model.subscription import Subscription
from recado.overlay.limits import OverlayError
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
    with pytest.raises(OverlayError, match="cannot be opened"):
        FileState(tmp_path / "file", "a")


@pytest.mark.parametrize("left", [20, 100, 4096, 9000])
def test_a_state_file_that_was_cut_short_is_refused_with_what_to_do(left, tmp_path):
    state = FileState(tmp_path, "a")
    for number in range(100):
        state.put(f"key {number}", "x" * 100)
    state.commit()
    state.close()
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(OverlayError, match=r"state\.db cannot be used: .* if it is damaged, take it away"):
        FileState(tmp_path, "a")


def test_a_value_that_cannot_be_read_is_refused_before_the_node_starts(tmp_path):
    FileState(tmp_path, "a").close()
    database = sqlite3.connect(tmp_path / FILE)
    database.execute("INSERT INTO saved VALUES ('k', x'c1')")
    database.commit()
    database.close()
    with pytest.raises(OverlayError, match="cannot be used"):
        run(node("a", state=tmp_path).start())


def test_state_that_the_machine_finds_no_sense_in_stops_the_start_and_frees_the_file(tmp_path):
    state = FileState(tmp_path, "a")
    state.put("subscription:s", 7)
    state.close()

    async def test():
        with pytest.raises(OverlayError, match="what the node saved cannot be used"):
            await node("a", protocol="trees", state=tmp_path).start()

    run(test())
    FileState(tmp_path, "a").close()


def test_a_full_disk_is_met_at_the_commit_only(tmp_path):
    state = FileState(tmp_path, "a")
    (pages,) = state._database.execute("PRAGMA page_count").fetchone()
    state._database.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(1000):
        state.put(f"key {number}", "x" * 1000)
        state.keep(f"s{number}", True)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        state.commit()
    state.close(commit=False)
    again = FileState(tmp_path, "a")
    assert again.load() == {}
    assert again.kept_subscriptions() == []
    again.close()


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
