"""The embedded proxy: it finds users, stays in the dialog, follows NATs, and is no open relay."""

from random import Random

import pytest

from protocols.sip.cast import BROKER, USER, Scene, media
from protocols.sip.torture import SDP, message
from protocols.sip.world import at
from recado.protocols.machine import Received, Send, SendFailed
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.digest import Credentials, Guard, secret_of
from recado.protocols.sip.events import AgentSettings, Ended, Established, Failed, Updated
from recado.protocols.sip.messages import read_message
from recado.protocols.sip.proxy import Proxy
from recado.protocols.sip.uri import Address


def scene_at_home(**more):
    scene = Scene(home=True, **more)
    for one in (scene.broker, scene.agent):
        scene.ask(one, "register")
    scene.run(1)
    scene.sent.clear()
    return scene


def sent(proxy, data, source=None):
    effects = proxy.handle(Received(source or at(9), data), 0.0, Random(1))
    return [(one.receiver, read_message(one.message)) for one in effects if isinstance(one, Send)]


def test_a_session_through_the_proxy():
    scene = scene_at_home()
    call = scene.call()
    assert scene.methods(at(100)) == ["INVITE", "200", "ACK"]
    invite = next(read_message(data) for _, source, _, data in scene.sent if source == at(100))
    assert invite.uri == "sip:broker@10.0.0.1:5060"  # the contact that was registered
    assert invite.headers.get("max-forwards") == "69"
    assert len(invite.headers.values("via")) == 2
    scene.move(scene.agent, at(8))
    scene.ask(scene.agent, "reinvite", call, media(8))
    scene.run(3)
    theirs = scene.told(scene.broker, Updated)[0].call
    scene.ask(scene.broker, "bye", theirs)
    scene.run(4)
    assert scene.told(scene.agent, Ended)
    straight = [(source, to) for _, source, to, _ in scene.sent if at(100) not in (source, to)]
    assert straight == []  # everything goes through it


def test_a_user_who_is_not_there():
    scene = Scene(home=True)
    scene.call()
    assert scene.told(scene.agent, Failed)[0].status == 480


def test_cancel_follows_its_invite_even_if_the_user_registers_elsewhere_meanwhile():
    scene = scene_at_home()
    scene.react = lambda machine, fact: None
    call = scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(2)
    other = scene.add(UserAgent(AgentSettings(user=BROKER, device="b2", home=at(100)), at(2)), at(2))
    scene.ask(other, "register")
    scene.run(3)
    scene.ask(scene.agent, "bye", call)
    scene.run(4)
    assert scene.told(scene.agent, Ended)[0].reason == "cancelled"
    assert scene.told(scene.broker, Ended)[0].reason == "the caller changed its mind"


def test_where_it_was_invited_is_forgotten_when_there_is_too_much_of_it(monkeypatch):
    monkeypatch.setattr("recado.protocols.sip.proxy._REMEMBERED", 2)
    scene = scene_at_home()
    for _ in range(5):
        scene.ask(scene.agent, "bye", scene.call())
        scene.run(scene.now + 1)
    assert len(scene.proxy._followed) == 2


@pytest.mark.parametrize("method", ["INVITE", "OPTIONS", "MESSAGE"])
def test_it_is_no_open_relay(method):
    proxy = Proxy(at(100), ("lac.example",), b"key")
    for fields in (
        (),
        ("Route: <sip:10.0.0.100:5060;lr>",),
        ("Route: <sip:10.0.0.100:5060;lr;k=0123456789abcdef01234567>",),
    ):
        found = sent(proxy, message(f"{method} sip:victim@192.0.2.99 SIP/2.0", *fields, body=SDP))
        assert [(to, one.status) for to, one in found] == [(at(9)._replace(host="10.0.0.9"), 403)]
    assert sent(proxy, message("ACK sip:victim@192.0.2.99 SIP/2.0")) == []


def test_its_signature_holds_for_one_dialog_only():
    scene = scene_at_home()
    scene.call()
    bye = next(data for _, source, to, data in scene.sent if data.startswith(b"ACK") and source == at(7))
    other = bye.replace(b"ACK", b"BYE").replace(b"Call-ID: ", b"Call-ID: x")
    assert [one.status for _, one in sent(scene.proxy, other, at(7))] == [403]
    assert [one.method for _, one in sent(scene.proxy, bye.replace(b"ACK", b"BYE"), at(7))] == ["BYE"]


def test_requests_to_the_proxy_itself():
    proxy = Proxy(at(100), ("lac.example",), b"key")
    assert [one.status for _, one in sent(proxy, message("OPTIONS sip:lac.example SIP/2.0"))] == [200]
    assert [one.status for _, one in sent(proxy, message("OPTIONS sip:10.0.0.100:5060 SIP/2.0"))] == [200]
    assert [one.status for _, one in sent(proxy, message("INVITE sip:lac.example SIP/2.0", body=SDP))] == [405]
    assert sent(proxy, message("ACK sip:lac.example SIP/2.0")) == []


def test_a_contact_that_is_the_proxy_itself_is_a_loop():
    proxy = Proxy(at(100), ("lac.example",), b"key")
    register = message(
        "REGISTER sip:lac.example SIP/2.0", "To: <sip:a@lac.example>", "From: <sip:a@lac.example>;tag=1",
        "Contact: <sip:a@10.0.0.100:5060>",
    )  # fmt: skip
    sent(proxy, register)
    assert [one.status for _, one in sent(proxy, message("OPTIONS sip:a@lac.example SIP/2.0"))] == [482]


def test_a_response_that_is_not_for_it_is_dropped():
    proxy = Proxy(at(100), ("lac.example",), b"key")
    assert sent(proxy, message("SIP/2.0 200 OK")) == []
    own = "Via: SIP/2.0/UDP 10.0.0.100:5060;branch=z9hG4bKx"
    assert sent(proxy, message("SIP/2.0 200 OK", own)) == []  # nobody below
    for transport in ("UDP", "TCP"):  # one that nobody asked for: a relay for everybody's bytes
        below = f"Via: SIP/2.0/{transport} 10.0.0.7:5070;received=192.0.2.7;rport=99"
        for signature in ("", ";k=", ";k=é", ";k=0123456789abcdef0123456789abcdef"):
            assert sent(proxy, message("SIP/2.0 200 OK", own + signature, below)) == []


def test_a_response_goes_back_only_where_its_request_came_from():
    scene = scene_at_home()
    scene.call()
    ok = next(data for _, source, to, data in scene.sent if data.startswith(b"SIP/2.0 200") and source == at(1))
    assert [to for to, _ in sent(scene.proxy, ok, at(1))] == [at(7)]
    assert [to for to, _ in sent(scene.proxy, ok, at(66))] == [at(7)], "whoever repeats it moves nothing"
    for ours, theirs in ((b"UDP 10.0.0.7:", b"TCP 10.0.0.7:"), (b"received=10.0.0.7", b"received=127.0.0.1")):
        assert ok.count(ours) == 1
        assert sent(scene.proxy, ok.replace(ours, theirs), at(1)) == []
    assert sent(Proxy(at(100), ("lac.example",), b"another key"), ok, at(1)) == []


def test_an_answer_goes_to_the_sender_whatever_it_writes():
    proxy = Proxy(at(100), ("lac.example",), b"key")
    via = "Via: SIP/2.0/UDP 10.0.0.9:5060;branch=z9hG4bKx;received=192.0.2.7"
    assert [to for to, _ in sent(proxy, message("OPTIONS sip:lac.example SIP/2.0", via))] == [at(9)]
    agent = UserAgent(AgentSettings(user=BROKER, device="b"), at(1))
    assert [to for to, _ in sent(agent, message(f"OPTIONS {BROKER} SIP/2.0", via))] == [at(9)]


def test_strangers_leave_no_transaction_behind():
    """24,000 CANCELs in ten seconds took every place, and everybody got 503 for half a minute."""
    agent = UserAgent(AgentSettings(user=BROKER, device="b"), at(1))
    for number in range(2_000):
        for method, to in (("CANCEL", ""), ("OPTIONS", ""), ("BYE", ";tag=x"), ("INVITE", ";tag=x")):
            made = message(
                f"{method} {BROKER} SIP/2.0",
                f"Via: SIP/2.0/UDP 10.0.0.9:5060;branch=z9hG4bK{number}",
                f"To: <{BROKER}>{to}",
                body=SDP if method == "INVITE" else "",
            )
            assert [one.status for _, one in sent(agent, made)] == [200 if method == "OPTIONS" else 481]
    state = agent.inspect()
    assert (state["servers"], state["timers"], state["calls"]) == ({}, [], {})


def test_what_needs_no_credentials_reaches_nobody_unless_it_follows_an_invite():
    """CANCEL and ACK cannot be challenged; a stranger's went to every user's device."""
    guard = Guard("lac", lambda name, realm, algorithm: secret_of(algorithm, name, realm, "secret"), b"key")
    scene = Scene(home=True, guard=guard, credentials=Credentials("user1", "secret"))
    own = AgentSettings(user=BROKER, device="b", home=at(100), credentials=Credentials("broker", "secret"))
    scene.broker = scene.add(UserAgent(own, at(1)), at(1))
    scene.ask(scene.broker, "register")
    scene.run(1)
    for method, expected in (("CANCEL", [481]), ("ACK", [])):
        for number in range(3):
            made = message(f"{method} {BROKER} SIP/2.0", f"Via: SIP/2.0/UDP 10.0.0.9:5060;branch=z9hG4bK{number}")
            found = sent(scene.proxy, made)
            assert [(to, one.status) for to, one in found] == [(at(9), status) for status in expected]
    scene.react = lambda machine, fact: None
    call = scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(scene.now + 1)
    scene.ask(scene.agent, "bye", call)
    scene.run(scene.now + 2)
    assert scene.told(scene.agent, Ended)[0].reason == "cancelled", "the caller's own"
    assert scene.told(scene.broker, Ended)[0].reason == "the caller changed its mind"


def test_keep_alives_and_rubbish():
    proxy = Proxy(at(100), ("lac.example",), b"key")
    for data in (b"", b"\r\n\r\n", b"\0", b"x", b"x\r\n\r\n", b"SIP/2.0 200 OK\r\n\r\n"):
        assert sent(proxy, data) == []
    assert proxy.handle(SendFailed(at(1)), 0.0, Random(1)) == []


def test_a_device_behind_a_nat_is_reached_where_it_is_seen():
    proxy = Proxy(at(100), ("lac.example",), b"key")
    public = Address("udp", "192.0.2.50", 40_000)
    register = message(
        "REGISTER sip:lac.example SIP/2.0", "Via: SIP/2.0/UDP 192.168.0.7:5070;branch=z9hG4bKn;rport",
        "To: <sip:a@lac.example>", "From: <sip:a@lac.example>;tag=1", "Contact: <sip:a@192.168.0.7:5070>",
    )  # fmt: skip
    answer = sent(proxy, register, public)
    assert [(to, one.status) for to, one in answer] == [(public, 200)]
    assert "received=192.0.2.50" in answer[0][1].headers.get("via")
    found = sent(proxy, message("INVITE sip:a@lac.example SIP/2.0", body=SDP))
    assert [(to, one.uri) for to, one in found] == [(public, "sip:a@192.168.0.7:5070")]
    route = found[0][1].headers.get("record-route")
    inside = message(
        "BYE sip:a@192.168.0.7:5070 SIP/2.0", f"Route: {route}", "Via: SIP/2.0/UDP 1.2.3.4;branch=z9hG4bKb"
    )
    assert [to for to, _ in sent(proxy, inside)] == [public]
    proxy.location.sweep(10_000.0)
    assert [to for to, _ in sent(proxy, inside.replace(b"z9hG4bKb", b"z9hG4bKc"))] == [
        Address("udp", "192.168.0.7", 5070)
    ]


def test_between_two_transports_it_records_itself_twice():
    proxy = Proxy(at(100), ("lac.example",), b"key")
    register = message(
        "REGISTER sip:lac.example SIP/2.0", "To: <sip:a@lac.example>", "From: <sip:a@lac.example>;tag=1",
        "Contact: <sip:a@10.0.0.5:5060;transport=tcp>",
    )  # fmt: skip
    sent(proxy, register)
    to, invite = sent(proxy, message("INVITE sip:a@lac.example SIP/2.0", body=SDP))[0]
    assert to == Address("tcp", "10.0.0.5", 5060)
    assert invite.via.transport == "TCP"
    assert ["tcp" in one for one in invite.headers.values("record-route")] == [True, False]


def test_the_next_hop_of_a_dialog_may_be_another_route_but_nobody_brings_one_along():
    scene = scene_at_home()
    scene.call()
    ack = next(data for _, source, to, data in scene.sent if data.startswith(b"ACK") and source == at(7))
    bye = read_message(ack.replace(b"ACK", b"BYE"))
    bye.headers.add("route", "<sip:10.0.0.77;lr>")
    assert [to for to, _ in sent(scene.proxy, bye.write(), at(7))] == [Address("udp", "10.0.0.77", 5060)]
    stranger = message(f"OPTIONS {USER} SIP/2.0", "Route: <sip:10.0.0.77;lr>")
    assert [one.status for _, one in sent(scene.proxy, stranger)] == [403]


def test_two_proxied_users_call_each_other():
    """The agent may be called too; nothing about the broker is special."""
    scene = scene_at_home()
    scene.react = lambda machine, fact: (
        scene.ask(machine, "answer", fact.call, media(7)) if type(fact).__name__ == "Incoming" else None
    )
    scene.ask(scene.broker, "invite", USER, media(1))
    scene.run(3)
    assert scene.told(scene.agent, Established)
    assert scene.told(scene.broker, Established)
