"""Every case that RFC 4475 describes: understood and written again, or answered as it asks for."""

import re
from random import Random

import pytest

from protocols.sip.torture import OF_AGENT, OF_REGISTRAR, VALID, WRONG
from protocols.sip.world import at
from recado.protocols.machine import Received, Report, Send
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.checks import check_request, check_response
from recado.protocols.sip.digest import Guard
from recado.protocols.sip.events import AgentSettings, Incoming
from recado.protocols.sip.messages import Headers, Request, read_message
from recado.protocols.sip.proxy import Proxy
from recado.protocols.sip.text import SipError
from recado.protocols.sip.uri import display_name


def read(data):
    message = read_message(data)
    (check_request if isinstance(message, Request) else check_response)(message)
    return message


def reaction(machine, data):
    """The status that is answered, "incoming" if the application is asked, None if nothing happens."""
    effects = machine.handle(Received(at(9), data), 0.0, Random(1))
    if any(isinstance(one, Report) and isinstance(one.fact, Incoming) for one in effects):
        return "incoming"
    found = [one for one in effects if isinstance(one, Send)]
    assert len(found) <= 1
    return int(re.match(rb"SIP/2.0 (\d+)", found[0].message)[1]) if found else None


def agent():
    return UserAgent(AgentSettings(user="sip:user@example.com", device="d"), at(1))


def test_all_forty_nine_cases_are_here():
    names = {*VALID, *WRONG, *OF_AGENT, *OF_REGISTRAR} - {"badinv01b", "scalar02b", "scalar02c", "scalar02d"}
    assert len(names) == 49
    assert len(VALID) == 14  # thirteen of section 3.1.1, and the one of RFC 2543


@pytest.mark.parametrize("name", VALID)
def test_valid_ones_are_written_again_without_loss(name):
    first = read(VALID[name])
    second = read(first.write())
    assert second.start_line == first.start_line
    assert second.body == first.body
    assert without_length(second.headers) == without_length(first.headers)


def without_length(headers):
    kept = headers.copy()
    kept.remove("content-length")
    return kept


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_found(name):
    with pytest.raises(SipError):
        read(WRONG[name][1])


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_answered_by_a_user_agent(name):
    expected, data = WRONG[name]
    assert reaction(agent(), data) == expected


@pytest.mark.parametrize("name", WRONG)
def test_wrong_ones_are_answered_by_a_registrar(name):
    expected, data = WRONG[name]
    assert reaction(Proxy(at(1), ("example.com",), b"key"), data) == expected


@pytest.mark.parametrize("name", OF_AGENT)
def test_reactions_of_a_user_agent(name):
    expected, data = OF_AGENT[name]
    assert reaction(agent(), data) == expected


@pytest.mark.parametrize("name", OF_REGISTRAR)
def test_reactions_of_a_registrar(name):
    expected, data = OF_REGISTRAR[name]
    guard = Guard("r", lambda *_: None, b"key") if name == "regaut01" else None
    assert reaction(Proxy(at(1), ("example.com",), b"key", guard=guard), data) == expected


def test_what_the_tortuous_one_says():
    message = read(VALID["wsinv"])
    assert [str(via) for via in (message.via,)] == ["SIP/2.0/UDP 192.0.2.2;branch=390skdjuw"]
    assert len(message.headers.values("via")) == 3
    assert (message.cseq.number, message.sender.tag, message.receiver.tag) == (9, "98asjd8", "1918181833n")
    assert display_name(message.sender) == 'J "R" \\"'
    assert message.headers.get("newfangledheader") == "newfangled value continued newfangled value"
    assert message.headers.get("subject") == ""


def test_two_null_characters_are_another_user_than_one():
    proxy = Proxy(at(1), ("example.com",), b"key")
    reaction(proxy, VALID["escnull"])
    assert len(next(iter(proxy.location.users(0.0).values()))) == 2


def test_escaped_octets_do_not_make_a_header():
    assert len(read(VALID["esc02"]).headers.values("contact")) == 2
    assert "c%6fntact" in read(VALID["esc02"]).headers


def test_a_proxy_counts_down():
    proxy = Proxy(at(1), ("example.com",), b"key")
    assert reaction(proxy, OF_AGENT["zeromf"][1]) == 483
    assert reaction(proxy, OF_AGENT["bext01"][1].replace(b"Require", b"Proxy-Require")) == 420


def test_an_ack_is_never_answered():
    data = WRONG["badaspec"][1].replace(b"OPTIONS", b"ACK")
    assert reaction(agent(), data) is None
    assert reaction(Proxy(at(1), ("example.com",), b"key"), data) is None


def test_the_answer_says_what_is_wrong():
    machine = agent()
    effects = machine.handle(Received(at(9), WRONG["mismatch01"][1]), 0.0, Random(1))
    line = effects[0].message.split(b"\r\n")[0]
    assert line == b"SIP/2.0 400 Bad Request - the method is OPTIONS, but CSeq says INVITE"


def test_headers_know_each_other():
    assert Headers([("v", "x")]) == Headers([("Via", "x")])
    assert Headers() != "nothing"
    assert repr(Headers([("v", "x")])) == "Headers([('via', 'x')])"
