"""Sessions: what opens, changes and ends them, and what is refused (mobility document, 3.3 to 3.5 and 17.12)."""

from random import Random

import pytest

from protocols.sip.cast import BROKER, USER, Scene, media
from protocols.sip.torture import SDP, message
from protocols.sip.world import at
from recado.protocols.machine import Asked, Received, Send
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.events import (
    AgentSettings,
    Answer,
    Bye,
    Ended,
    Established,
    Failed,
    Incoming,
    Invite,
    MoveTo,
    OptionsAnswered,
    Progress,
    Reinvite,
    Reject,
    Unregister,
    Updated,
    UpdateFailed,
)
from recado.protocols.sip.limits import SipLimits
from recado.protocols.sip.messages import read_message, reply
from recado.protocols.sip.sdp import TCP, Media
from recado.protocols.sip.text import SipError


def last_request(scene, method):
    return next(data for _, _, _, data in reversed(scene.sent) if data.startswith(method.encode()))


def test_a_session_opens():
    scene = Scene()
    call = scene.call()
    assert scene.methods() == ["INVITE", "200", "ACK"]
    ours, theirs = scene.told(scene.agent, Established)[0], scene.told(scene.broker, Established)[0]
    assert ours.call == call
    assert ours.remote.media == theirs.local.media == media(1)
    assert theirs.remote.media == ours.local.media == media(7)
    incoming = scene.told(scene.broker, Incoming)[0]
    assert (incoming.user, incoming.device, incoming.proven) == (USER, "d1", False)
    assert incoming.source == at(7)


def test_a_device_without_a_name_in_its_description_is_known_by_its_contact():
    scene = Scene()
    scene.ask(scene.agent, "invite", BROKER, Media(host="10.0.0.7", port=1))
    scene.run(1)
    assert scene.told(scene.broker, Incoming)[0].device == "d1"


def test_a_hand_over():
    scene = Scene()
    call = scene.call()
    scene.move(scene.agent, at(8))
    scene.ask(scene.agent, "reinvite", call, media(8))
    scene.run(2)
    assert scene.methods()[3:] == ["INVITE", "200", "ACK"]
    ours, theirs = scene.told(scene.agent, Updated)[0], scene.told(scene.broker, Updated)[0]
    assert theirs.remote.media == ours.local.media == media(8)
    assert (theirs.remote.version, theirs.remote.session_id) == (
        2,
        scene.told(scene.agent, Established)[0].local.session_id,
    )
    scene.ask(scene.broker, "bye", theirs.call)  # to the new address
    scene.run(3)
    assert scene.told(scene.agent, Ended)[0].reason == "the other side ended it"


def test_a_change_at_the_same_address_says_that_the_device_is_back():
    scene = Scene()
    call = scene.call()
    scene.ask(scene.agent, "reinvite", call, media(7))
    scene.run(2)
    assert scene.told(scene.broker, Updated)[0].remote.version == 2


@pytest.mark.parametrize("version", [1, 2])
def test_a_description_that_is_not_newer_is_answered_and_changes_nothing(version):
    scene = Scene()
    call = scene.call()
    scene.ask(scene.agent, "reinvite", call, media(7))
    scene.run(2)
    scene.agent._calls.table[call].version = version - 1  # as if the device had forgotten how far it was
    scene.ask(scene.agent, "reinvite", call, media(66))
    scene.run(3)
    assert scene.methods()[-3:] == ["INVITE", "200", "ACK"]
    assert len(scene.told(scene.broker, Updated)) == 1
    assert next(iter(scene.broker._calls.table.values())).remote.media == media(7)


def test_a_change_waits_for_the_one_that_is_under_way():
    scene = Scene()
    call = scene.call()
    for last in (20, 21, 22):
        scene.ask(scene.agent, "reinvite", call, media(last))
    scene.run(3)
    assert [one.remote.media.host for one in scene.told(scene.broker, Updated)] == ["10.0.0.20", "10.0.0.22"]


def test_a_change_from_another_address_does_not_wait():
    scene = Scene()
    call = scene.call()
    scene.dead = [at(1)]
    scene.ask(scene.agent, "reinvite", call, media(7))
    scene.run(2)
    scene.dead = []
    scene.move(scene.agent, at(8))
    scene.ask(scene.agent, "reinvite", call, media(8))
    scene.run(2.05)
    assert scene.told(scene.broker, Updated)[-1].remote.media == media(8)


def test_the_answer_to_a_change_that_was_given_up_is_still_acknowledged():
    scene = Scene(delay=(0.2, 0.2))
    call = scene.call()
    scene.ask(scene.agent, "reinvite", call, media(7))
    scene.run(1.3)  # the answer is on its way to the old address
    scene.machines[at(8)] = scene.machines[at(7)]  # and still gets through
    scene.tell(scene.agent, Asked(MoveTo(at(8))))
    scene.ask(scene.agent, "reinvite", call, media(8))
    scene.run(10)
    acks = [read_message(data).cseq.number for _, _, _, data in scene.sent if data.startswith(b"ACK")]
    assert {1, 2, 3} <= set(acks)
    assert scene.told(scene.broker, Updated)[-1].remote.media == media(8)


def test_the_other_side_has_forgotten_the_session():
    scene = Scene()
    call = scene.call()
    scene.broker = scene.add(UserAgent(AgentSettings(user=BROKER, device="b"), at(1)), at(1))  # restarted
    scene.ask(scene.agent, "reinvite", call, media(8))
    scene.run(5)
    assert "481" in scene.methods()
    assert scene.told(scene.agent, Ended)[0].reason == "the other side has forgotten the session"


def test_a_proxy_that_cannot_reach_the_other_side_ends_the_session():
    scene = Scene()
    call = scene.call()
    scene.ask(scene.agent, "reinvite", call, media(8))
    timeout = reply(read_message(last_request(scene, "INVITE")).headers, 408)
    scene.receive(scene.agent, timeout.write(), at(1))
    scene.run(100)
    assert scene.told(scene.agent, Ended)[0].reason == "the other side has forgotten the session"
    assert scene.told(scene.broker, Ended)[0].reason == "the other side ended it"
    scene.empty()


def test_a_bye_to_one_who_has_forgotten():
    scene = Scene()
    call = scene.call()
    scene.broker = scene.add(UserAgent(AgentSettings(user=BROKER, device="b"), at(1)), at(1))
    scene.ask(scene.agent, "bye", call)
    scene.run()
    assert scene.told(scene.agent, Ended)[0].reason == "ended here"
    scene.empty()


def test_what_nobody_serves_is_refused_with_488():
    scene = Scene()
    scene.ask(scene.agent, "invite", BROKER, Media(host="10.0.0.7", port=1, protocol=TCP))
    scene.run(2)
    assert scene.told(scene.agent, Failed)[0].status == 488
    assert scene.told(scene.broker) == []


def test_a_change_to_something_that_nobody_serves_leaves_the_session_as_it_was():
    scene = Scene()
    call = scene.call()
    scene.ask(scene.agent, "reinvite", call, Media(host="10.0.0.9", port=1, protocol=TCP))
    scene.run(3)
    failure = scene.told(scene.agent, UpdateFailed)[0]
    assert (failure.status, failure.retry_seconds) == (488, None)
    scene.ask(scene.agent, "reinvite", call, media(9))
    scene.run(4)
    assert scene.told(scene.broker, Updated)[0].remote.media == media(9)


def test_an_answer_that_cannot_be_used_ends_the_session():
    scene = Scene()
    call = scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(0.012)  # the answer is on its way
    scene._queue = [(t, n, s, to, data.replace(b"UDP/RUDP", b"RTP/AVP!")) for t, n, s, to, data in scene._queue]
    scene.run(40)
    assert scene.told(scene.agent, Failed)[0].status == 488
    assert call not in scene.agent.inspect()["calls"]
    assert scene.told(scene.broker, Ended)


def test_a_call_is_refused():
    scene = Scene()
    scene.react = lambda machine, fact: machine is scene.broker and scene.ask(machine, "reject", fact.call, 403)
    scene.call()
    assert scene.told(scene.agent, Failed)[0].status == 403
    scene.run()
    scene.empty()


def test_an_incoming_call_is_ended_instead_of_answered():
    scene = Scene()
    scene.react = lambda machine, fact: isinstance(fact, Incoming) and scene.ask(machine, "bye", fact.call)
    scene.call()
    assert scene.told(scene.agent, Failed)[0].status == 480
    assert scene.told(scene.broker, Ended)[0].reason == "ended here"


def test_goodbye_before_the_ack_has_come():
    scene = Scene()

    def react(machine, fact):
        if isinstance(fact, Incoming):
            scene.ask(machine, "answer", fact.call, media(1))
            scene.ask(machine, "bye", fact.call)

    scene.react = react
    scene.call()
    scene.run(5)
    assert scene.methods() == ["INVITE", "200", "ACK", "BYE", "200"]
    assert scene.told(scene.broker, Established) == []
    assert len(scene.told(scene.broker, Ended)) == len(scene.told(scene.agent, Ended)) == 1


def test_is_anybody_there():
    scene = Scene()
    name = scene.ask(scene.agent, "options", BROKER)
    scene.run(1)
    assert scene.told(scene.agent, OptionsAnswered) == [OptionsAnswered(name, 200)]
    answer = read_message(scene.sent[-1][3])
    assert answer.headers.get("allow") == "INVITE, ACK, CANCEL, BYE, OPTIONS"


def test_ringing_is_told():
    scene = Scene()
    scene.react = lambda machine, fact: None
    call = scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(0.1)
    ringing = reply(read_message(last_request(scene, "INVITE")).headers, 180, "t")
    scene.receive(scene.agent, ringing.write(), at(1))
    assert scene.told(scene.agent) == [Progress(call, 180)]


def answers_with(change):
    """A scene whose next 200 to an INVITE is changed on its way."""
    scene = Scene()
    transmit = scene._transmit

    def changed(source, effect):
        if (
            effect.message.startswith(b"SIP/2.0 200")
            and b"INVITE" in effect.message
            and source == at(1)
            and scene.change
        ):
            effect = Send(effect.receiver, change(effect.message))
        transmit(source, effect)

    scene.change, scene._transmit = False, changed
    return scene


def test_a_contact_that_cannot_be_reached_is_a_failure():
    scene = answers_with(lambda data: data.replace(b"<sip:broker@", b"<sips:broker@"))
    scene.change = True
    scene.call()
    assert scene.told(scene.agent, Failed)[0].status == 416
    assert scene.told(scene.broker, Ended)[0].reason == "the other side ended it"
    scene.run()
    scene.empty()


def test_a_route_of_the_answer_that_cannot_be_reached_is_a_failure():
    scene = answers_with(lambda data: data.replace(b"From:", b"Record-Route: <sips:nowhere.example;lr>\r\nFrom:"))
    scene.change = True
    scene.call()
    assert scene.told(scene.agent, Failed)[0].status == 416
    scene.run(100)
    assert "never acknowledged" in scene.told(scene.broker, Ended)[0].reason
    scene.empty()


def test_an_answer_to_a_change_that_cannot_be_used_leaves_the_session_as_it_was():
    scene = answers_with(lambda data: data.replace(b"UDP/RUDP", b"RTP/AVP!"))
    call = scene.call()
    scene.change = True
    scene.ask(scene.agent, "reinvite", call, media(8))
    scene.run(3)
    assert [(one.status, one.retry_seconds) for one in scene.told(scene.agent, UpdateFailed)] == [(488, None)]
    assert scene.agent.inspect()["calls"] == {call: "connected"}


def test_goodbye_while_a_change_rings():
    """The re-INVITE got 100 and nothing more; its transaction does not wait for ever."""
    scene = Scene()
    call = scene.call()
    scene.ask(scene.agent, "reinvite", call, media(8))
    trying = reply(read_message(last_request(scene, "INVITE")).headers, 100)
    scene.dead = [at(1)]
    scene.receive(scene.agent, trying.write(), at(1))
    scene.ask(scene.agent, "bye", call)
    scene.run(200)
    assert scene.agent.inspect()["clients"] == {}


def test_a_route_that_cannot_be_reached_harms_nobody():
    scene = Scene()
    scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(0.012)
    next(iter(scene.broker._calls.table.values())).dialog.routes = ["<sips:nowhere;lr>"]
    scene.dead = [at(1)]
    scene.run(100)  # no ACK comes, and the BYE cannot be sent
    assert scene.told(scene.broker, Ended)[0].reason == "the answer was never acknowledged"
    assert scene.broker.inspect()["timers"] == []


def test_a_place_that_was_refused_is_not_told_later():
    scene = Scene()
    call = scene.call()
    scene.ask(scene.agent, "reinvite", call, Media(host="10.0.0.9", port=1, protocol=TCP))
    scene.run(3)
    scene.ask(scene.broker, "reinvite", scene.told(scene.broker, Established)[0].call, media(1))
    scene.run(4)
    assert scene.told(scene.broker, Updated)[0].remote.media == media(7)


def test_a_place_that_nobody_has_heard_of_yet_is_told_when_the_other_side_asks():
    scene = Scene()
    call = scene.call()
    scene.dead = [at(1)]
    scene.ask(scene.agent, "reinvite", call, media(9))
    scene.run(33.5)  # it was given up, and is tried again later
    scene.dead = []
    scene.ask(scene.broker, "reinvite", scene.told(scene.broker, Established)[0].call, media(1))
    scene.run(33.6)
    assert scene.told(scene.broker, Updated)[0].remote.media == media(9)


def test_a_change_to_a_contact_that_cannot_be_reached_is_refused_and_changes_nothing():
    scene = Scene()
    call = scene.call()
    before = next(iter(scene.broker._calls.table.values())).dialog.target
    scene.ask(scene.agent, "reinvite", call, media(8))
    scene._queue = [
        (t, n, s, to, data.replace(b"<sip:user1@10", b"<sips:user1@1")) for t, n, s, to, data in scene._queue
    ]
    scene.run(3)
    assert scene.told(scene.agent, UpdateFailed)[0].status == 416
    assert next(iter(scene.broker._calls.table.values())).dialog.target == before


def test_a_call_is_cancelled_once_however_often_it_rings():
    scene = Scene()
    scene.react = lambda machine, fact: None
    call = scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(1)
    scene.ask(scene.agent, "bye", call)
    ringing = reply(read_message(last_request(scene, "INVITE")).headers, 180, "t").write()
    for _ in range(3):
        scene.receive(scene.agent, ringing, at(1))
    assert scene.methods().count("CANCEL") == 1
    scene.run()
    scene.empty()


def test_a_keep_alive_is_no_message():
    machine = broker()
    for data in (b"", b"\r\n\r\n", b"\0"):
        assert answered(machine, data) == []
    assert machine.local == at(1)


# -- what strangers send


def answered(machine, data):
    effects = machine.handle(Received(at(9), data), 0.0, Random(1))
    return [one.message.split(b" ")[1] for one in effects if isinstance(one, Send)]


def ask(machine, request):
    return machine.handle(Asked(request), 0.0, Random(1))


def broker(**more):
    return UserAgent(AgentSettings(user=BROKER, device="b", **more), at(1))


@pytest.mark.parametrize(
    ("expected", "data"),
    [
        (b"481", message("BYE sip:broker@10.0.0.1 SIP/2.0", "To: <sip:broker@lac.example>;tag=no")),
        (b"481", message("BYE sip:broker@10.0.0.1 SIP/2.0")),
        (b"481", message("INVITE sip:broker@10.0.0.1 SIP/2.0", "To: <sip:broker@lac.example>;tag=no", body=SDP)),
        (b"481", message("CANCEL sip:broker@10.0.0.1 SIP/2.0")),
        (b"405", message("SUBSCRIBE sip:broker@10.0.0.1 SIP/2.0")),
        (b"488", message("INVITE sip:broker@10.0.0.1 SIP/2.0")),
        (b"488", message("INVITE sip:broker@10.0.0.1 SIP/2.0", body=SDP.replace("application 9", "audio 9"))),
        (b"488", message("INVITE sip:broker@10.0.0.1 SIP/2.0", body=SDP.replace("application 9", "application 0"))),
        (b"488", message("INVITE sip:broker@10.0.0.1 SIP/2.0", body=SDP.replace("192.0.2.1", "example.com"))),
        (b"400", message("INVITE sip:broker@10.0.0.1 SIP/2.0", body="this is no description\n")),
        (b"400", message("INVITE sip:broker@10.0.0.1 SIP/2.0", drop=("contact",), body=SDP)),
        (b"416", message("INVITE sip:broker@10.0.0.1 SIP/2.0", "Contact: <sips:caller@192.0.2.1>", body=SDP)),
        (b"413", message("INVITE sip:broker@10.0.0.1 SIP/2.0", body=SDP + "a=x\n" * 5_000)),
        (b"415", message("INVITE sip:broker@10.0.0.1 SIP/2.0", "Content-Encoding: gzip", body=SDP)),
    ],
)  # fmt: skip
def test_refusals(expected, data):
    assert answered(broker(), data) == [expected]


def test_the_same_call_on_two_ways():
    machine = broker()
    first = message("INVITE sip:broker@10.0.0.1 SIP/2.0", body=SDP)
    assert answered(machine, first) == []
    assert answered(machine, first.replace(b"torture1", b"torture2")) == [b"482"]


def test_too_many_calls_and_too_many_transactions():
    machine = broker(limits=SipLimits(calls=1))
    first = message("INVITE sip:broker@10.0.0.1 SIP/2.0", body=SDP)
    assert answered(machine, first) == []
    other = first.replace(b"torture1", b"torture2").replace(b"Call-ID: t", b"Call-ID: u")
    assert answered(machine, other) == [b"503"]
    with pytest.raises(SipError, match="1 calls are open already"):
        ask(machine, Invite("c", USER, media(1)))
    machine = broker(limits=SipLimits(transactions=1))
    assert answered(machine, first) == []
    assert answered(machine, message("OPTIONS sip:broker@10.0.0.1 SIP/2.0")) == [b"503"]


def test_requests_that_make_no_sense():
    scene = Scene()
    with pytest.raises(SipError, match="there is no call 'x'"):
        ask(scene.agent, Bye("x"))
    with pytest.raises(SipError, match="not registered"):
        ask(scene.agent, Unregister())
    with pytest.raises(SipError, match="is not a URI"):
        ask(scene.agent, Invite("c", "broker", media(7)))
    with pytest.raises(SipError, match="knows no request str"):
        ask(scene.agent, "dance")
    call = scene.ask(scene.agent, "invite", BROKER, media(7))
    with pytest.raises(SipError, match="is calling; only an established one"):
        ask(scene.agent, Reinvite(call, media(8)))
    with pytest.raises(SipError, match=r"there is a call .* already"):
        ask(scene.agent, Invite(call, BROKER, media(8)))
    with pytest.raises(SipError, match="is calling; only an incoming one can be answered"):
        ask(scene.agent, Answer(call, media(8)))
    with pytest.raises(SipError, match="is calling; only an incoming one can be rejected"):
        ask(scene.agent, Reject(call, 486))
    machine = broker()
    answered(machine, message("INVITE sip:broker@10.0.0.1 SIP/2.0", body=SDP))
    with pytest.raises(SipError, match="between 300 and 699, not 200"):
        ask(machine, Reject(next(iter(machine.inspect()["calls"])), 200))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"user": "sip:lac.example"}, "has to be a URI with a name"),
        ({"user": "tel:1"}, "only sip: is supported"),
        ({"device": "two words"}, "1 to 128 letters"),
        ({"register_expires": 0}, "at least 1 second"),
        ({"refresh_ratio": 1.0}, "between 0 and 1"),
    ],
)
def test_settings_are_checked(wrong, says):
    with pytest.raises(SipError, match=says):
        AgentSettings(**{"user": USER, "device": "d"} | wrong)


def test_only_one_of_several_answers_is_used():
    """A proxy that forks: the second 2xx has another tag; it is acknowledged and ended."""
    scene = Scene()
    call = scene.call()
    first = next(data for _, _, _, data in scene.sent if data.startswith(b"SIP/2.0 200"))
    tag = read_message(first).receiver.tag.encode()
    scene.receive(scene.agent, first.replace(tag, b"another"), at(1))
    assert scene.methods(at(7))[-2:] == ["ACK", "BYE"]
    assert read_message(last_request(scene, "BYE")).receiver.tag == "another"
    assert scene.agent.inspect()["calls"] == {call: "connected"}


def test_an_old_request_of_the_dialog_comes_late():
    scene = Scene()
    call = scene.call()
    scene.ask(scene.agent, "reinvite", call, media(8))
    scene.run(40)
    old = last_request(scene, "INVITE").replace(b"CSeq: 2", b"CSeq: 1").replace(b"z9hG4bK", b"z9hG4bKx")
    scene.receive(scene.broker, old, at(7))
    assert scene.sent[-1][3].startswith(b"SIP/2.0 500")
    bye = old.replace(b"INVITE", b"BYE")
    scene.receive(scene.broker, bye, at(7))
    assert scene.sent[-1][3].startswith(b"SIP/2.0 500")


def test_a_change_without_a_description_asks_for_ours():
    scene = Scene()
    scene.call()
    invite = read_message(last_request(scene, "INVITE"))
    answer = read_message(next(data for _, _, _, data in scene.sent if data.startswith(b"SIP/2.0 200")))
    invite.headers.set("to", answer.headers.get("to"))
    invite.headers.set("cseq", "7 INVITE")
    invite.headers.set("via", "SIP/2.0/UDP 10.0.0.7;branch=z9hG4bKempty")
    invite.body = b""
    scene.receive(scene.broker, invite.write(), at(7))
    made = read_message(scene.sent[-1][3])
    assert (made.status, made.body) == (200, answer.body)


def test_a_strict_router_on_the_way():
    """A Record-Route without ``lr``: its URI takes the place of the request line, and the target goes last."""
    scene = Scene()
    call = scene.call()
    dialog = scene.agent._calls.table[call].dialog
    dialog.routes = ["<sip:10.0.0.1>", "<sip:10.0.0.2;lr>"]
    scene.ask(scene.agent, "bye", call)
    bye = read_message(last_request(scene, "BYE"))
    assert bye.uri == "sip:10.0.0.1"
    assert bye.headers.all("route") == ["<sip:10.0.0.2;lr>", "<sip:broker@10.0.0.1:5060>"]
