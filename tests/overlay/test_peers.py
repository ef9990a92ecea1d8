"""Super nodes over TCP: joining, publishing, the end of a father, stand-bys, the sizer, restarts, hostile peers."""

import asyncio

from overlay.helpers import Hand, run, until
from overlay.peers import come, got, kill, machine, peer, role, stop
from recado.filters.expression import parse
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.overlay.hello import Begin
from recado.overlay.limits import OVERLAY_LIMITS
from recado.protocols.supernodes import messages as m
from recado.protocols.supernodes.members import Member, View


def tick(id, v):
    return Event(id, "tick", attributes={"v": v})


def test_peers_join_by_filter_and_everybody_publishes():
    async def test():
        a = await come("a", "v < 1")
        b = await come("b", "v < 2", a)
        c = await come("c", "v < 2", b)
        d = await come("d", "v < 2", c)  # any peer that is known will do, a sub node too
        everybody = [a, b, c, d]
        assert [role(one) for one in everybody] == ["super", "super", "sub", "sub"]
        await until(lambda: machine(b)["layer"]["children"] == [str(c.address), str(d.address)])
        for number, publisher in enumerate(everybody):
            await publisher.publish(tick(f"low-{number}", 0))
            await publisher.publish(tick(f"high-{number}", 1))
        low, high = [f"low-{n}" for n in range(4)], [f"high-{n}" for n in range(4)]
        await until(lambda: sorted(got(a)) == low and all(sorted(got(one)) == high + low for one in (b, c, d)))
        await stop(*everybody)

    run(test())


def test_when_a_father_dies_the_first_child_takes_its_place():
    async def test():
        a = await come("a", "v < 1")
        father = await come("b", "v < 2", a)
        first, second, third = [await come(name, "v < 2", a) for name in "cde"]
        await until(lambda: machine(third)["family"]["brothers"] == [str(first.address), str(second.address)])
        await kill(father)
        await until(lambda: role(first) == "super" and first.joined)
        await until(lambda: machine(third)["family"]["father"] == str(first.address))
        await until(lambda: machine(a)["layer"]["members"] == 2)
        await third.publish(tick("e", 0))
        await until(lambda: all(got(one) == ["e"] for one in (a, first, second, third)))
        assert [role(one) for one in (first, second, third)] == ["super", "sub", "sub"]
        await stop(a, first, second, third)

    run(test())


def test_a_node_shows_its_family_its_stand_bys_its_view_and_its_sizer():
    async def test():
        settings = {"k": 2, "budget_bytes_per_second": 100.0, "sizer_seconds": 1.0}
        a = await come("a", "v < 1", settings=settings)
        b = await come("b", "v < 1", a, settings=settings)
        c = await come("c", "v < 1", a, settings=settings)
        await until(lambda: a.show()["sections"]["layer"]["K nodes"] == [str(b.address)])
        shown = a.show()
        assert shown["sections"]["family"] == {"children": [str(b.address), str(c.address)]}
        assert shown["sections"]["layer"]["members"] == 2
        assert ":" in shown["sections"]["layer"]["view"]
        assert shown["roles"] == ["super node of v < 1, 2 children"]
        leads = [one for one in (a, b) if one.show()["sections"]["layer"]["leads a slice"]]
        assert len(leads) == 1
        assert "rate" in leads[0].show()["sections"]["sizer"]
        await until(lambda: b.show()["sections"].get("family", {}).get("brothers") == [str(c.address)])
        assert b.show()["sections"]["family"]["father"] == str(a.address)
        assert b.show()["roles"] == [f"stand-by of {a.address} for v < 1"]
        await until(lambda: c.show()["sections"]["family"]["brothers"] == [str(b.address)])
        assert "layer" not in c.show()["sections"]
        await stop(a, b, c)

    run(test())


def test_another_subscription_moves_a_peer_to_another_family():
    async def test():
        a = await come("a", "v < 1")
        b = await come("b", "w == 1", a)
        c = await come("c", "v < 1", a)
        stream = await c.subscribe(Subscription("more", parse("w == 1")))
        await c.unsubscribe("s-c")
        await until(lambda: role(c) == "sub" and machine(c)["family"]["father"] == str(b.address))
        await a.publish(Event("e", "tick", attributes={"v": 0, "w": 1}))
        assert (await anext(stream)).event.id == "e"
        await stop(a, b, c)

    run(test())


def test_a_peer_that_was_killed_comes_back_with_its_subscription(tmp_path):
    async def test():
        a = await come("a", "v < 1")
        b = await come("b", "v < 2", a, state=tmp_path)
        address = b.address
        await kill(b)
        again = await come("b", "", a, state=tmp_path, listen=str(address))
        assert machine(again)["filter"] == "v < 2"
        await until(lambda: machine(a)["layer"]["members"] == machine(again)["layer"]["members"] == 2)
        await a.publish(tick("e", 1))
        await until(lambda: got(again) == ["e"])
        await stop(a, again)

    run(test())


def test_a_peer_whose_seeds_are_away_says_so_and_joins_when_one_comes_back(caplog):
    caplog.set_level("INFO", "recado.overlay")

    async def test():
        a = await come("a", "v < 1")
        b = peer("b", "v < 1", a)
        await stop(a)
        await b.start()
        await asyncio.sleep(0.3)
        assert not b.joined
        assert "b: none of the peers that this node knows can be reached; it will try them again" in caplog.text
        a = await come("a", "v < 1", listen=str(a.address))
        await until(lambda: b.joined and machine(a)["layer"]["children"] == [str(b.address)])
        await stop(a, b)

    run(test())


# -- hostile peers


async def family():
    a = await come("a", "v < 1")
    b = await come("b", "v < 2", a)
    c = await come("c", "v < 2", a)
    return a, b, c


async def works(a, b, c, id):
    """A publication reaches everybody."""
    await c.publish(tick(id, 0))
    await until(lambda: all(id in got(one) for one in (a, b, c)))


def test_garbage_ends_the_link_of_who_sent_it():
    async def test():
        a, b, c = await family()
        before = machine(a)
        for number, (payload, reason) in enumerate(
            [
                (["FC", 7], "no message of protocol"),
                (["FC", "v <"], "no message of protocol"),
                (["P", "x", "n", 1, ["e"] * 30_000, []], "the limit is 20,000"),
                (["E", [[[], [], []], [[5, "x", "true"], [5, "y", "true"]]]], "not in the order"),
                (["M", [[1, 0], [], [], []], 0, 0, 0, 0], "no stamp"),
                (["TC", [1, 1], {"id": ""}, 0, 0, [[], [], []], 0], "no message of protocol"),
                (["XX"], "no message of protocol"),
            ]
        ):
            hand = await (await Hand.to(a)).become(f"x{number}", a, at="127.0.0.1:9")
            hand.say(Begin(number, 1))
            hand.say(payload, control=False)
            assert reason in (await hand.last_words())[-1].reason
        assert machine(a)["layer"]["members"] == before["layer"]["members"] == 2
        assert a.links.refused == 7
        await works(a, b, c, "e")
        await stop(a, b, c)

    run(test())


def test_a_flood_is_bounded_and_the_others_go_on():
    """Ten thousand questions from one who does not listen for the answers."""

    async def test():
        a, b, c = await family()
        hand = await (await Hand.to(a)).become("x", a, at="127.0.0.1:9")
        hand.say(Begin(1, 1))
        check = a.protocol.encode(m.FilterCheck("v < 77"))
        for _ in range(10_000):
            hand.writer.write(len(check).to_bytes(4, "big") + check)
        for number in range(5):
            await works(a, b, c, f"e{number}")
            assert a.links.pending_bytes < OVERLAY_LIMITS.queue_bytes
        await until(lambda: a.driver.counters.received["FilterCheck"] > 6_000)
        assert machine(a)["layer"]["suspects"] == []
        assert role(c) == "sub"
        assert machine(c)["family"]["father"] == str(b.address)
        hand.writer.close()
        await stop(a, b, c)

    run(test(), 60)


def test_who_takes_events_and_forwards_none_is_gone_around_by_repair():
    """A peer that is a child of b, acknowledges everything and passes nothing on."""

    async def test():
        a, b, c = await family()
        thief = await come("d", "v < 2", a)
        await until(lambda: len(machine(b)["layer"]["children"]) == 2)
        handle = thief.driver._driver._handle
        thief.driver._driver._handle = lambda stimulus, now, rng: [
            effect
            for effect in handle(stimulus, now, rng)
            if type(getattr(effect, "message", None)) is not m.TurmoilSubnode
        ]
        for number in range(6):  # the chain begins with a random child, so the thief is first in some
            await a.publish(tick(f"e{number}", 1))
        await until(lambda: sorted(got(c)) == [f"e{number}" for number in range(6)])
        await stop(a, b, c, thief)

    run(test())


def wire(node, message):
    """A message as a frame of the machine."""
    payload = node.protocol.encode(message)
    return len(payload).to_bytes(4, "big") + payload


def test_a_peer_that_claims_to_have_seen_what_nobody_has_is_not_followed():
    """Views that are far ahead: others ask for what is missing, get nothing, and go on with what they know."""

    async def test():
        a, b, c = await family()
        hand = await (await Hand.to(a)).become("x", a, at="127.0.0.1:9")
        hand.say(Begin(1, 1))
        key = machine(a)["layer"]["key"]
        for number in range(1, 200):
            lie = View({number: 1_000_000}, frozenset(), None, frozenset({number}))
            hand.writer.write(wire(a, m.ViewRepair(lie, key)))
            hand.writer.write(wire(a, m.TurmoilCast((number, 1), tick(f"x{number}", 5), 0, 0, lie, number)))
        await until(lambda: a.driver.counters.received["TurmoilCast"] >= 199)
        assert machine(a)["layer"]["members"] == 2
        assert not [id for id in got(a) if id.startswith("x")]  # nobody here wants v = 5
        await works(a, b, c, "e")
        hand.writer.close()
        await stop(a, b, c)

    run(test())


def test_joins_of_peers_that_do_not_exist_are_forgotten_again():
    """They are announced, since anybody may join; when they cannot be reached they are taken for gone."""

    async def test():
        a, b, c = await family()
        hand = await (await Hand.to(a)).become("x", a, at="127.0.0.1:9")
        hand.say(Begin(1, 1))
        for number in range(300):
            ghost = Member(number + 1, f"127.0.0.1:{20 + number % 3}", f"v < {number}")
            hand.writer.write(wire(a, m.JoinRequest(ghost, "full")))
        await until(lambda: machine(a)["layer"]["members"] > 50)
        hand.writer.close()
        await until(lambda: machine(a)["layer"]["members"] == machine(b)["layer"]["members"] == 2)
        assert [role(one) for one in (a, b, c)] == ["super", "super", "sub"]
        await works(a, b, c, "e")
        await stop(a, b, c)

    run(test(), 60)
