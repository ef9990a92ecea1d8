"""The control socket: for its owner only, one answer a request; a connection takes its subscription along."""

import contextlib
import os
import socket
import stat
import time

import msgspec
import pytest

from overlay.background import background
from overlay.helpers import QUICK, node
from recado.overlay.addresses import find_node, overlay_folder, running_nodes, socket_path
from recado.overlay.client import NodeClient, ask
from recado.overlay.limits import OverlayError


def path_of(name, overlay="recado"):
    return socket_path(overlay, name)


def eventually(condition):
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def raw(name, data):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path_of(name)))
        with contextlib.suppress(BrokenPipeError):  # the node does not read a request that is too long to its end
            connection.sendall(data)
        return msgspec.json.decode(connection.makefile("rb").readline())


def test_only_the_owner_may_open_it():
    with background(node("a")):
        assert stat.S_IMODE(path_of("a").stat().st_mode) == 0o600
        assert stat.S_IMODE(path_of("a").parent.stat().st_mode) == 0o700
    assert not path_of("a").exists()


def test_a_folder_that_others_can_write_is_refused(own_runtime):
    (own_runtime / "shared").mkdir()
    (own_runtime / "shared").chmod(0o777)
    with pytest.raises(OverlayError, match="can be written by others"):
        overlay_folder("shared")


def test_publish_subscribe_show():
    with background(node("a")), NodeClient(path_of("a")) as client, NodeClient(path_of("a")) as other:
        assert client.ask("subscribe", subscription={"id": "s", "filter": "Price < 3"}) == {"subscription": "s"}
        other.ask("publish", event={"id": "e1", "Price": 5})
        other.ask("publish", event={"id": "e2", "Price": 2})
        assert next(client.stream()) == {"event": {"id": "e2", "Price": 2}, "subscriptions": ["s"]}
        shown = other.ask("show")
        assert (shown["node"], shown["process"], shown["machine"]["subscriptions"]) == ("a", os.getpid(), ["s"])
        assert [d["event"] for d in other.ask("deliveries")] == ["e2"]
        assert [step["kind"] for step in other.ask("story", about="e2")] == ["Publish"]
        client.close()
        eventually(lambda: other.ask("show")["machine"]["subscriptions"] == [])


def test_a_kept_subscription_is_followed_later_with_what_came_meanwhile():
    with background(node("a")):
        with NodeClient(path_of("a")) as client:
            client.ask("subscribe", subscription={"id": "s"}, keep=True)
        ask(path_of("a"), "subscribe", subscription={"id": "t"}, follow=False)
        ask(path_of("a"), "publish", event={"id": "e1"})
        for id in ("s", "t"):
            with NodeClient(path_of("a")) as client:
                client.ask("follow", id=id)
                assert next(client.stream())["event"] == {"id": "e1"}
                with pytest.raises(OverlayError, match="another program follows"):
                    ask(path_of("a"), "follow", id=id)
        ask(path_of("a"), "unsubscribe", id="s")
        with pytest.raises(OverlayError, match="no subscription 's'; it has t"):
            ask(path_of("a"), "follow", id="s")


def test_unsubscribing_ends_the_connection_that_follows():
    with background(node("a")), NodeClient(path_of("a")) as client:
        client.ask("subscribe", subscription={"id": "s"})
        ask(path_of("a"), "unsubscribe", id="s")
        assert list(client.stream()) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"nonsense\n", "the request cannot be read"),
        (b'{"do": "dance"}\n', "the request cannot be read: Invalid value 'dance'"),
        (b'{"do": "publish"}\n', "missing required field `event`"),
        (b'{"do": "show", "more": 1}\n', "unknown field `more`"),
        (b'{"do": "publish", "event": {"type": "x"}}\n', "id"),
        (b'{"do": "subscribe", "subscription": {"id": "s", "filter": "Price <"}}\n', "found the end of the filter"),
        (b'{"do": "subscribe", "subscription": {"id": "s", "fliter": "x"}}\n', "no member `fliter`"),
        (b'{"do": "connect", "address": "nowhere"}\n', "is no address"),
        (b"x" * 2_000_000 + b"\n", "longer than an event may be"),
    ],
)
def test_bad_requests_are_answered_and_harm_nobody(line, message):
    with background(node("a")):
        assert message in raw("a", line)["error"]
        assert ask(path_of("a"), "show")["machine"]["subscriptions"] == []


def test_programs_are_limited():
    with background(node("a", limits=msgspec.structs.replace(QUICK, programs=1))), NodeClient(path_of("a")) as first:
        first.ask("count")
        with NodeClient(path_of("a")) as second, pytest.raises(OverlayError, match="1 programs use this node already"):
            second.ask("count")
        assert first.ask("count")["node"] == "a"


def test_nodes_can_be_linked_and_stopped_from_outside():
    a, b = node("a"), node("b")
    with background(a, b):
        ask(path_of("a"), "connect", address=str(b.address))
        eventually(lambda: "b" in ask(path_of("a"), "count")["links"])
        assert ask(path_of("a"), "stop") == {}
        assert a.stopping.is_set()


def test_a_socket_that_a_killed_node_left_is_taken_over_but_not_a_living_one():
    path_of("a").touch()
    with background(node("a")), pytest.raises(OverlayError, match="runs already; give this one another name"):  # noqa: SIM117
        with background(node("a")):
            pass


def test_nodes_are_listed_with_their_numbers_in_order():
    with background(*(node(f"n{number}") for number in (10, 2, 1))):
        assert [path.stem for path in running_nodes()] == ["n1", "n2", "n10"]


def test_a_request_nested_without_end_is_refused_and_the_node_goes_on():
    with background(node("a")), NodeClient(path_of("a")) as client:
        client._socket.sendall(b'{"do": "publish", "event": ' + b"[" * 50_000 + b"]" * 50_000 + b"}\n")
        assert b'"error"' in client._file.readline()
        assert client.ask("count")["node"] == "a"


def test_nodes_are_found_by_name():
    with pytest.raises(OverlayError, match="no node runs here; see: recado node run"):
        find_node("")
    with background(node("a", overlay="one")):
        assert find_node("") == find_node("a") == find_node("one/a") == path_of("a", "one")
        with background(node("b", overlay="one"), node("a", overlay="two")):
            assert find_node("b") == path_of("b", "one")
            assert find_node("two/a") == path_of("a", "two")
            assert len(running_nodes()) == 3
            with pytest.raises(OverlayError, match="'/one' is no name of a node or overlay"):
                find_node("/one/a")
            for name in ("", "a"):
                with pytest.raises(OverlayError, match=r"several nodes .*; name one with --node: one/a, one/b, two/a"):
                    find_node(name)
    with pytest.raises(OverlayError, match="no node answers at"):
        NodeClient(path_of("a", "one"))


def test_an_answer_that_breaks_off_is_a_node_that_has_gone(tmp_path):
    """As of one that is killed while it writes."""
    path = tmp_path / "half.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        with NodeClient(path, 30.0) as client:
            connection, _ = listening.accept()
            connection.sendall(b'{"ok": {"samples": [')
            connection.shutdown(socket.SHUT_WR)
            with pytest.raises(OverlayError, match="closed the connection"):
                client.ask("samples")
            connection.close()
