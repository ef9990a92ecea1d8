"""Keeping a registration fresh: refreshing, moving, several devices, and registrars that say no."""

from random import Random

import pytest

from protocols.sip.cast import USER, Scene
from protocols.sip.torture import message
from protocols.sip.world import World, at
from recado.protocols.machine import Received, Send
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.events import AgentSettings, Registered, RegistrationFailed, Unregistered
from recado.protocols.sip.messages import read_message, reply
from recado.protocols.sip.proxy import Location, Proxy
from recado.protocols.sip.text import SipError


class FakeRegistrar:
    """Answers every REGISTER as a test says."""

    def __init__(self, answer):
        self._answer, self.seen = answer, []

    def handle(self, stimulus, now, rng):
        request = read_message(stimulus.message)
        self.seen.append(request)
        return [Send(stimulus.sender, self._answer(request, len(self.seen)).write())]


def with_registrar(answer, **more):
    world = World()
    server = world.add(FakeRegistrar(answer), at(100))
    agent = world.add(UserAgent(AgentSettings(user=USER, device="d1", home=at(100), **more), at(7)), at(7))
    world.ask(agent, "register")
    return world, agent, server


def ok(request, *fields):
    made = reply(request.headers, 200, "t")
    for name, value in fields:
        made.headers.add(name, value)
    return made


def registers(scene):
    return [read_message(data) for _, source, _, data in scene.sent if data.startswith(b"REGISTER")]


def test_the_message_of_the_document():
    scene = Scene(home=True)
    scene.ask(scene.agent, "register")
    scene.run(1)
    request = registers(scene)[0]
    assert request.start_line == "REGISTER sip:lac.example SIP/2.0"
    assert request.headers.get("to") == "<sip:user1@lac.example>"
    assert request.headers.all("contact") == ['<sip:user1@10.0.0.7:5060>;+sip.instance="<urn:uuid:d1>";expires=300']
    assert request.call_id.startswith("reg-d1-")
    assert scene.told(scene.agent, Registered)[0].expires_seconds == 300


def test_it_is_refreshed_at_half_the_time_with_the_same_call_id():
    scene = Scene(home=True)
    scene.ask(scene.agent, "register")
    scene.run(1_000)
    found = registers(scene)
    assert len(found) == 7
    assert len({one.call_id for one in found}) == 1
    assert [one.cseq.number for one in found] == [1, 2, 3, 4, 5, 6, 7]
    times = [round(now) for now, source, _, data in scene.sent if data.startswith(b"REGISTER")]
    assert times == [0, 150, 300, 450, 600, 750, 900]


def test_a_move_carries_two_contacts():
    scene = Scene(home=True)
    scene.ask(scene.agent, "register")
    scene.run(1)
    scene.move(scene.agent, at(8))
    scene.run(2)
    request = registers(scene)[-1]
    assert request.headers.all("contact") == [
        '<sip:user1@10.0.0.8:5060>;+sip.instance="<urn:uuid:d1>";expires=300',
        "<sip:user1@10.0.0.7:5060>;expires=0",
    ]
    assert [one.uri.host for one in scene.proxy.location.bindings(USER, 2.0)] == ["10.0.0.8"]
    scene.run(200)
    assert len(registers(scene)[-1].headers.all("contact")) == 1  # once confirmed, the old one is forgotten


def test_moves_that_were_never_confirmed_are_carried_on():
    scene = Scene(home=True)
    scene.ask(scene.agent, "register")
    scene.run(1)
    scene.dead = [at(100)]
    for last in (8, 9, 8):
        scene.move(scene.agent, at(last))
    contacts = registers(scene)[-1].headers.all("contact")
    assert [one.partition("@")[2].partition(":")[0] for one in contacts] == ["10.0.0.8", "10.0.0.7", "10.0.0.9"]
    scene.dead = []
    scene.run(40)
    assert [one.uri.host for one in scene.proxy.location.bindings(USER, scene.now)] == ["10.0.0.8"]


def test_the_end_takes_away_only_our_own_contact():
    scene = Scene(home=True)
    other = scene.add(UserAgent(AgentSettings(user=USER, device="d2", home=at(100)), at(17)), at(17))
    for one in (scene.agent, other):
        scene.ask(one, "register")
    scene.run(1)
    assert len(scene.told(other, Registered)[0].contacts) == 2
    scene.ask(scene.agent, "unregister")
    scene.run(2)
    assert scene.told(scene.agent, Unregistered)
    assert [one.uri.host for one in scene.proxy.location.bindings(USER, 2.0)] == ["10.0.0.17"]
    scene.run(1_000)
    assert sum(one.headers.get("contact").startswith("<sip:user1@10.0.0.7") for one in registers(scene)) == 2


def test_a_goodbye_that_nobody_hears_is_still_the_end():
    scene = Scene(home=True)
    scene.ask(scene.agent, "register")
    scene.run(1)
    scene.dead = [at(100)]
    scene.ask(scene.agent, "unregister")
    scene.run(100)
    assert scene.told(scene.agent, Unregistered)
    assert scene.due(scene.agent) is None


def test_an_interval_that_is_too_brief_is_raised():
    scene = Scene(home=True, settings={"register_expires": 2})
    scene.ask(scene.agent, "register")
    scene.run(1)
    assert scene.methods()[:4] == ["REGISTER", "423", "REGISTER", "200"]
    assert scene.told(scene.agent, Registered)[0].expires_seconds == 5


@pytest.mark.parametrize("least", ["0", "1", "999999999"])
def test_a_server_that_is_never_content_is_given_up(least):
    def answer(request, count):
        made = reply(request.headers, 423)
        made.headers.add("min-expires", least)
        return made

    world, agent, server = with_registrar(answer)
    world.run(1_000)
    assert len(server.seen) == 1
    assert world.told(agent, RegistrationFailed)[0].status == 423


def test_what_the_registrar_grants_is_what_counts():
    for fields, granted in (
        ((("contact", "<sip:user1@10.0.0.7:5060>;expires=60"), ("expires", "90")), 60),
        ((("contact", "<sip:user1@10.0.0.99>;expires=60"), ("expires", "90")), 90),
        ((), 300),
        ((("expires", "0"),), 1),
    ):
        world, agent, _ = with_registrar(lambda request, count, fields=fields: ok(request, *fields))
        world.run(0.1)
        assert world.told(agent, Registered)[0].expires_seconds == granted


@pytest.mark.parametrize(("status", "again"), [(403, False), (404, False), (500, True), (503, True), (408, True)])
def test_which_refusals_are_tried_again(status, again):
    world, agent, server = with_registrar(lambda request, count: reply(request.headers, status))
    world.run(4)
    failure = world.told(agent, RegistrationFailed)[0]
    assert (failure.status, failure.retry_seconds) == (status, 5.0 if again else None)
    world.run(20)
    assert (len(server.seen) > 1) == again


def test_a_contact_that_came_back_is_taken_away_once():
    """A REGISTER of before the move may arrive after that of the move."""
    back = ("contact", '<sip:user1@10.0.0.5:5060>;+sip.instance="<urn:uuid:d1>";expires=200')
    ours = ("contact", '<sip:user1@10.0.0.7:5060>;+sip.instance="<urn:uuid:d1>";expires=300')
    world, _, server = with_registrar(lambda request, count: ok(request, ours, back))
    world.run(10)
    assert len(server.seen) == 2  # and not for ever, if the registrar does not care
    assert server.seen[1].headers.all("contact")[1] == "<sip:user1@10.0.0.5:5060>;expires=0"


# -- the registrar's side


def register(location, cseq, *contacts, call_id="c1", now=0.0, expires=None):
    fields = [f"CSeq: {cseq} REGISTER", f"Call-ID: {call_id}", *(f"Contact: {one}" for one in contacts)]
    fields += [f"Expires: {expires}"] if expires is not None else []
    data = message("REGISTER sip:lac.example SIP/2.0", *fields, drop=() if contacts else ("contact",))
    return [str(one.uri) for one in location.register(USER, read_message(data), at(9), now)]


def test_bindings_expire():
    location = Location()
    register(location, 1, "<sip:a@10.0.0.1>;expires=10", "<sip:b@10.0.0.2>;expires=20")
    assert len(location.bindings(USER, 9.9)) == 2
    assert [str(one.uri) for one in location.bindings(USER, 10.0)] == ["sip:b@10.0.0.2"]
    location.sweep(15.0)
    assert len(location) == 1
    location.sweep(20.0)
    assert len(location) == 0


def test_a_request_without_contacts_asks():
    location = Location()
    register(location, 1, "<sip:a@10.0.0.1>")
    assert register(location, 2) == ["sip:a@10.0.0.1"]


def test_the_star_takes_all_away():
    location = Location()
    register(location, 1, "<sip:a@10.0.0.1>", "<sip:b@10.0.0.1>")
    with pytest.raises(Exception, match="needs Expires: 0"):
        register(location, 2, "*")
    assert register(location, 3, "*", expires=0) == []


def test_a_late_register_changes_nothing():
    location = Location()
    register(location, 5, "<sip:a@10.0.0.1>")
    for cseq in (4, 5):
        with pytest.raises(Exception, match="older than what is known"):
            register(location, cseq, "<sip:b@10.0.0.2>")
    assert len(register(location, 1, "<sip:b@10.0.0.2>", call_id="restarted")) == 2


def test_all_or_nothing():
    location = Location()
    with pytest.raises(Exception, match="at least 5 seconds"):
        register(location, 1, "<sip:a@10.0.0.1>", "<sip:b@10.0.0.2>;expires=1")
    with pytest.raises(Exception, match="only sip: is supported"):
        register(location, 1, "<sip:a@10.0.0.1>", "<tel:1>")
    assert len(location) == 0


def test_the_best_contact_is_the_one_preferred_and_then_the_newest():
    location = Location()
    register(location, 1, "<sip:a@10.0.0.1>;q=0.5", now=0.0)
    register(location, 2, "<sip:b@10.0.0.2>;q=0.9", now=1.0)
    register(location, 3, "<sip:c@10.0.0.3>;q=0.5", now=2.0)
    register(location, 4, '<sip:d@10.0.0.4>;q="x"', now=3.0)
    assert [one.uri.user for one in location.bindings(USER, 4.0)] == ["d", "b", "c", "a"]


def test_limits_of_the_registrar():
    from recado.protocols.sip.limits import SipLimits

    location = Location(SipLimits(users=1, contacts=2))
    register(location, 1, "<sip:a@10.0.0.1>", "<sip:b@10.0.0.1>")
    with pytest.raises(Exception, match="more than 2 contacts"):
        register(location, 2, "<sip:c@10.0.0.1>")
    request = read_message(message("REGISTER sip:lac.example SIP/2.0"))
    with pytest.raises(Exception, match="the registrar is full"):
        location.register("sip:other@lac.example", request, at(9), 0.0)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        (("To: <sip:user@other.example>", "From: <sip:user@other.example>;tag=1"), b"404"),
        (("To: <sip:user@lac.example>", "From: <sip:thief@lac.example>;tag=1"), b"403"),
        (("To: <sip:user@lac.example>", "From: <sip:user@lac.example>;tag=1", "Require: path"), b"420"),
        (("To: <sip:user@lac.example>", "From: <sip:user@lac.example>;tag=1"), b"200"),
    ],
)
def test_what_a_registrar_refuses(fields, status):
    proxy = Proxy(at(100), ("LAC.example",), b"key")
    register = message("REGISTER sip:lac.example SIP/2.0", *fields)
    effects = proxy.handle(Received(at(9), register), 0.0, Random(1))
    [answer] = [one for one in effects if isinstance(one, Send)]
    assert answer.message.split(b" ")[1] == status


def test_a_registrar_sweeps_while_it_has_something_to_sweep():
    scene = Scene(home=True, settings={"register_expires": 10})
    scene.ask(scene.agent, "register")
    scene.run(1)
    del scene.machines[at(7)]
    assert scene.due(scene.proxy) is not None
    scene.run(500)
    assert len(scene.proxy.location) == 0
    assert scene.due(scene.proxy) is None


# -- against a plain twin


class PlainLocation:
    """What a registrar is, in a few lines: contacts with an expiry, and the last number of each Call-ID."""

    def __init__(self):
        self.rows = {}  # contact: (expires at, Call-ID, number)

    def alive(self, now):
        return {contact for contact, (until, _, _) in self.rows.items() if until > now}

    def register(self, call_id, number, contacts, now):
        self.rows = {contact: row for contact, row in self.rows.items() if row[0] > now}
        if any(row[1] == call_id and row[2] >= number for row in self.rows.values()):
            return False
        for contact, seconds in contacts:
            self.rows.pop(contact, None)
            if seconds:
                self.rows[contact] = (now + seconds, call_id, number)
        return True


@pytest.mark.parametrize("seed", range(20))
def test_the_registrar_is_what_its_plain_twin_is(seed):
    chance, location, twin, now = Random(seed), Location(), PlainLocation(), 0.0
    for _ in range(200):
        now += chance.choice((0.0, 1.0, 7.0))
        call_id, number = chance.choice(("c1", "c2", "c3")), chance.randrange(1, 30)
        contacts = [
            (f"sip:a@10.0.0.{chance.randrange(5)}", chance.choice((0, 5, 10, 60)))
            for _ in range(chance.randrange(1, 4))
        ]
        try:
            register(
                location, number, *(f"<{uri}>;expires={seconds}" for uri, seconds in contacts), call_id=call_id, now=now
            )
            accepted = True
        except SipError:
            accepted = False
        assert accepted == twin.register(call_id, number, contacts, now)
        assert {str(one.uri) for one in location.bindings(USER, now)} == twin.alive(now)
