"""Lists in pages: every entry that is there all the time is on exactly one page, whatever comes and goes."""

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recado.broker import stimuli as s
from recado.broker.core import Broker
from recado.broker.notices import add_gap
from recado.broker.state import GAP_NIDS
from recado.server import listing
from recado.server.listing import PAGE_BYTES, CursorError, PageRequest, read_cursor, read_page, write_cursor
from recado.server.tokens import TokenLine, hash_token, write_tokens
from recado.server.webhooks.dead_letters import DeadLetter
from server.running import http, run, serving

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
LATER = datetime(2027, 1, 1, tzinfo=UTC)
NAMES = st.text("ab.~é", min_size=1, max_size=3)


def make_broker(pairs):
    broker = Broker()
    for user, name in pairs:
        subscribe(broker, user, name)
    return broker


def subscribe(broker, user, name):
    broker.handle(s.Subscribe(user, name, 0, LATER, "d", "", (), {}), NOW)


def show(user, one):
    return {"user": user.name, "id": one.id, "text": "x" * one.record.get("size", 0)} if one.active else None


def read(broker, wanted):
    page = read_page(broker.state, wanted, lambda user: user.subscriptions, show)
    return [(one["user"], one["id"]) for one in map(msgspec.json.decode, page.entries)], page.following


def read_all(broker, between=lambda: None, **wanted):
    """All pages, and how many there were."""
    found, after, pages = [], None, 0
    while True:
        entries, after = read(broker, PageRequest(after=after, **wanted))
        assert len(entries) <= wanted["limit"]
        found += entries
        pages += 1
        if after is None:
            return found, pages
        between()


@given(
    pairs=st.sets(st.tuples(NAMES, NAMES), max_size=30), limit=st.integers(1, 9),
    users=st.sampled_from(["", "a", "ab"]), prefix=st.sampled_from(["", "a", "b."]), looked_at=st.integers(1, 12),
)  # fmt: skip
def test_pages_together_are_the_whole_list_in_order(pairs, limit, users, prefix, looked_at):
    broker = make_broker(pairs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "LOOKED_AT", looked_at)
        found, _ = read_all(broker, user=users + "*", limit=limit, prefix=prefix)
        assert found == sorted(one for one in pairs if one[0].startswith(users) and one[1].startswith(prefix))
        for name in {user for user, _ in pairs}:
            mine, _ = read_all(broker, user=name, limit=limit, prefix=prefix)
            assert mine == sorted(one for one in pairs if one[0] == name and one[1].startswith(prefix))


@settings(max_examples=30)
@given(
    stays=st.sets(st.tuples(NAMES, NAMES), min_size=1, max_size=20), limit=st.integers(1, 4), data=st.data(),
)  # fmt: skip
def test_what_is_there_all_the_time_is_listed_once_while_others_come_and_go(stays, limit, data):
    broker = make_broker(stays)
    others = st.tuples(NAMES, NAMES).filter(lambda pair: pair not in stays)

    def churn():
        for user, name in data.draw(st.lists(others, max_size=4)):
            held = broker.state.users.get(user)
            if held is not None and name in held.subscriptions:
                broker.handle(s.Cancel(held.subscriptions[name], 0), NOW)
                broker.state.closed.clear()
            else:
                subscribe(broker, user, name)

    found, _ = read_all(broker, churn, user="*", limit=limit)
    assert len(found) == len(set(found))
    assert found == sorted(found)
    assert stays <= set(found)


def test_users_that_went_are_forgotten_and_may_come_back():
    broker = make_broker((f"u{number:05}", "s") for number in range(2_000))
    assert len(read_all(broker, user="*", limit=1_000)[0]) == 2_000
    for name in list(broker.state.users)[:1_900]:
        del broker.state.users[name]
    assert len(read_all(broker, user="*", limit=1_000)[0]) == 100
    subscribe(broker, "u00007", "again")
    assert read(broker, PageRequest(user="*", limit=1))[0] == [("u00007", "again")]
    assert len(broker.state.names._names) < 1_000


def test_a_page_is_bounded_in_bytes_and_one_large_entry_is_a_page():
    broker = Broker()
    for number in range(5):
        record = {"size": 700_000 if number != 2 else 3 * 2**20}
        broker.handle(s.Subscribe("ana", f"s{number}", 0, LATER, "d", "", (), record), NOW)
    found, pages = read_all(broker, user="ana", limit=1_000)
    assert (len(found), pages) == (5, 5)


def test_a_page_looks_at_a_bounded_number_of_entries():
    broker = make_broker((f"user{number}", "s") for number in range(30_000))
    entries, after = read(broker, PageRequest(user="*", prefix="t"))
    assert entries == []
    assert after is not None
    assert read_all(broker, user="*", prefix="t", limit=9) == ([], 4)


@pytest.mark.parametrize("text", ["x", "", "é", "bm90aGluZw", "====", "W10", "WyJhIl0", "WzEsMl0", "a" * 5_000])
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(CursorError, match="is no cursor; give what the page before has as next"):
        read_cursor(text)


@given(st.tuples(st.text(max_size=300), st.none() | st.text(max_size=300)))
def test_a_cursor_is_read_as_it_was_written(place):
    assert read_cursor(write_cursor(place)) == place


def test_over_http_lists_come_in_pages(tmp_path):
    async def check():
        lines = [TokenLine(name, name, hash_token(name), admin=name == "root") for name in ("ana", "anton", "root")]
        write_tokens(tmp_path / "tokens", lines)
        access = {"tokens": str(tmp_path / "tokens"), "anonymous": False}
        async with (
            serving(tmp_path, access=access) as server,
            http(server, token="ana") as ana,
            http(server, token="anton") as anton,
            http(server, token="root") as root,
        ):
            for number in range(7):
                await ana.post("/v1/subscriptions", json={"id": f"a/{number}", "type": "t"})
            await anton.post("/v1/subscriptions", json={"id": "mine"})
            await ana.post("/v1/events", json={"type": "t"})
            for device in ("phone", "laptop", "pad"):
                await ana.post("/v1/mailboxes/me/take", json={"device": device})
            first = await ana.get("/v1/subscriptions?limit=3&prefix=a/")
            assert [one["id"] for one in first.json()["subscriptions"]] == ["a/0", "a/1", "a/2"]
            link = first.headers["link"]
            assert link.startswith("<?")
            assert link.endswith('>; rel="next"')
            second = await ana.get("/v1/subscriptions" + link[1 : link.index(">")])
            assert [one["id"] for one in second.json()["subscriptions"]] == ["a/3", "a/4", "a/5"]
            await ana.delete("/v1/subscriptions/a%2F5")  # the cursor stands on it
            last = await ana.get("/v1/subscriptions", params={"after": second.json()["next"]})
            assert [one["id"] for one in last.json()["subscriptions"]] == ["a/6"]
            assert "next" not in last.json()
            assert "link" not in last.headers
            whole = (await ana.get("/v1/subscriptions")).json()
            assert (len(whole["subscriptions"]), "next" in whole) == (6, False)
            many = (await root.get("/v1/subscriptions?user=an*")).json()["subscriptions"]
            assert {one["user"] for one in many} == {"ana", "anton"}
            assert {one["user"] for one in (await root.get("/v1/sessions?user=*&prefix=p")).json()["sessions"]} == {
                "ana"
            }
            devices = (await ana.get("/v1/sessions/me?limit=2")).json()
            assert [one["device"] for one in devices["sessions"]] == ["laptop", "pad"]
            assert (await ana.get("/v1/sessions/me", params={"after": devices["next"]})).json() == {
                "sessions": [(await ana.get("/v1/sessions/me?prefix=ph")).json()["sessions"][0]]
            }
            assert (await root.get("/v1/mailboxes?user=*&limit=1")).json()["mailboxes"][0]["user"] == "ana"
            for path in ("/v1/subscriptions", "/v1/sessions", "/v1/mailboxes"):
                for who, query in ((ana, "user=an*"), (anton, f"user=*&after={devices['next']}")):
                    assert (await who.get(f"{path}?{query}")).status_code == 403
                for query in ("limit=0", "limit=1001", "after=x", "prefix=", "after="):
                    answer = await ana.get(f"{path}?{query}")
                    assert (answer.status_code, answer.json()["status"]) == (400, 400), (path, query)
            # somebody else's cursor shows nothing of theirs
            foreign = (await anton.get("/v1/subscriptions", params={"after": second.json()["next"]})).json()
            assert {one["user"] for one in foreign["subscriptions"]} <= {"anton"}

    run(check())


def test_notifications_and_dead_letters_are_found_by_the_beginning_of_their_subscription(tmp_path):
    async def check():
        async with serving(tmp_path) as server, http(server) as ana:
            for name in ("cheap-1", "cheap-2", "dear"):
                await ana.post("/v1/subscriptions", json={"id": name})
                server.gateway.letters.add(
                    DeadLetter(0, "ana", name, 1, "u", b'"' + b"x" * 700_000 + b'"', "r", "t", 1)
                )
            await ana.post("/v1/events", json=[{"type": "t"}, {"type": "t"}])
            peek = "/v1/mailboxes/me/notifications"
            await ana.post("/v1/mailboxes/me/take", json={"wait": 5})
            assert len((await ana.get(peek)).json()["notifications"]) == 6
            some = (await ana.get(f"{peek}?prefix=cheap&limit=3")).json()
            assert [one["sub_id"] for one in some["notifications"]] == ["cheap-1", "cheap-2", "cheap-1"]
            rest = (await ana.get(f"{peek}?prefix=cheap&after={some['next']}")).json()
            assert ([one["sub_id"] for one in rest["notifications"]], "next" in rest) == (["cheap-2"], False)
            letters = (await ana.get("/v1/dead-letters?prefix=cheap")).json()
            assert [one["sub_id"] for one in letters["dead_letters"]] == ["cheap-1"]  # two are more than a page
            more = (await ana.get(f"/v1/dead-letters?prefix=cheap&after={letters['next']}")).json()
            assert ([one["sub_id"] for one in more["dead_letters"]], "next" in more) == (["cheap-2"], False)
            assert len(server.gateway.letters.of("ana", most_bytes=2**20)) == 2  # no more than that is read

    run(check())


def test_an_answer_to_a_take_has_a_bounded_size_of_notices(tmp_path):
    """A device that was away while a million notifications were dropped got them all named in one answer."""

    async def check():
        async with serving(tmp_path) as server, http(server, user="ana") as ana:
            state, out = server.engine.broker.state, []
            nids = list(range(10**12, 10**12 + 60 * GAP_NIDS))
            add_gap(state, state.user("ana"), nids, out, device="", reason="full")
            told, done, answers = [], [], 0
            while len(told) < len(nids):
                answer = await ana.post("/v1/mailboxes/me/take", json={"device": "cron", "wait": 5, "notices": done})
                assert len(answer.content) < 1.2 * PAGE_BYTES
                notices = answer.json()["notices"]
                told += [nid for notice in notices for nid in notice["nids"]]
                done = [notice["notice"] for notice in notices]
                answers += 1
            assert told == nids, "each once, in their order"
            assert answers > 2

    run(check())
