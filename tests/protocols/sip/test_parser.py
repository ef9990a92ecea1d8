"""Reading and writing: forms that RFC 3261 allows, limits, and whatever bytes chance makes: a message or a SipError."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.sip.cast import BROKER, Scene, media
from protocols.sip.torture import OF_AGENT, OF_REGISTRAR, SDP, VALID, WRONG, message
from protocols.sip.world import at
from recado.protocols.sip.checks import check_request, check_response
from recado.protocols.sip.limits import LIMITS, SipLimits
from recado.protocols.sip.messages import (
    COMPACT,
    Framer,
    Headers,
    Request,
    Response,
    Via,
    canonical,
    read_cseq,
    read_message,
    read_via,
    reply,
    spell,
)
from recado.protocols.sip.sdp import read_sdp
from recado.protocols.sip.text import SipError, param, quote, read_params, split, unquote, write_params
from recado.protocols.sip.uri import (
    Address,
    address_of_record,
    display_name,
    read_address,
    read_host_port,
    read_name_addr,
    read_sip_uri,
    read_uri,
    same_uri,
)

TORTURES = [*VALID.values(), *(data for table in (WRONG, OF_AGENT, OF_REGISTRAR) for _, data in table.values())]


def test_compact_names_and_case():
    data = message("OPTIONS sip:a@b.example SIP/2.0").replace(b"Via:", b"v:").replace(b"Call-ID:", b"I :")
    found = read_message(data)
    assert found.via.host == "192.0.2.1"
    assert found.call_id == "torture@192.0.2.1"
    assert canonical("M") == "contact"
    assert len(set(COMPACT.values())) == len(COMPACT)
    assert [spell(name) for name in ("call-id", "cseq", "www-authenticate", "max-forwards")] == [
        "Call-ID", "CSeq", "WWW-Authenticate", "Max-Forwards",
    ]  # fmt: skip


def test_several_values_in_one_field_or_in_several_are_the_same():
    one = Headers([("route", "<sip:a;lr>, <sip:b;x=1,2>"), ("route", '"x, <y>" <sip:c>')])
    assert one.values("route") == ["<sip:a;lr>", "<sip:b;x=1,2>", '"x, <y>" <sip:c>']
    assert one.pop("route") == "<sip:a;lr>"
    assert one.all("route") == ["<sip:b;x=1,2>", '"x, <y>" <sip:c>']


def test_headers_can_be_changed():
    one = Headers([("x-a", "1"), ("x-b", "2"), ("x-a", "3")])
    one.set("x-a", "4")
    one.push("x-b", "0")
    one.push("x-c", "5")
    assert list(one) == [("x-c", "5"), ("x-a", "4"), ("x-b", "0"), ("x-b", "2")]
    one.set("x-d", "6")
    assert len(one) == 5
    with pytest.raises(SipError, match="the header Max-Forwards is missing; it has to be there once"):
        one.one("max-forwards")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("sip:host", (None, "host", None)),
        ("sip:u@host:5070", ("u", "host", 5070)),
        ("sips:u:pw@[2001:db8::1]:5061", ("u", "2001:db8::1", 5061)),
        ("SIP:U@HOST;transport=tcp;lr?subject=x", ("U", "HOST", None)),
        ("sip:user;par=u%40example.net@example.com", ("user;par=u%40example.net", "example.com", None)),
    ],
)
def test_uris(text, parts):
    uri = read_sip_uri(text)
    assert (uri.user, uri.host, uri.port) == parts
    assert read_sip_uri(str(uri)) == uri


@pytest.mark.parametrize(
    "text",
    ["", "sip", "sip:", "sip:@host", "sip:a b@host", "sip:u@host:0", "sip:u@host:99999", "sip:u@host:x", "sip:u@[::1",
     "sip:u@[nothing]", "sip:u@host;", "sip:u@host;a=", "sip:u@ho st", "sip:u%4@host", "sip:u@host?%", "1sip:x",
     "sip:u@.x",
     "sip:u@a..b", "sip:u@" + "a" * 300, "sip:u@host:5060x", "tel:1 2", "sip:\x00@host"],
)  # fmt: skip
def test_what_is_no_uri(text):
    with pytest.raises(SipError):
        read_uri(text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtlanTa.CoM;Transport=tcp", True),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5", True),
        ("sip:carol@chicago.com;newparam=5", "sip:carol@chicago.com;security=on", True),
        ("sip:carol@chicago.com;security=off", "sip:carol@chicago.com;security=on", False),
        ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP", False),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060", False),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp", False),
        ("sip:alice@a.com?subject=x", "sip:alice@a.com", False),
        ("tel:1", "tel:1", True),
        ("tel:1", "sip:1@x", False),
    ],
)
def test_the_comparisons_of_rfc_3261(one, other, same):
    assert same_uri(read_uri(one), read_uri(other)) is same
    assert same_uri(read_uri(other), read_uri(one)) is same


def test_addresses_of_record():
    def aor(text):
        return address_of_record(read_uri(text))

    assert aor("sip:%61lice@Atlanta.com:5070;x=y") == aor("sips:alice@atlanta.com") == "sip:alice@atlanta.com"
    assert aor("sip:a%40evil.example@lac.example") == "sip:a%40evil.example@lac.example"
    assert aor("sip:Alice@x.com") != aor("sip:alice@x.com")
    assert aor("tel:+1") == "tel:+1"
    assert aor("sip:[::1]:99") == "sip:[::1]"


@pytest.mark.parametrize(
    ("text", "display", "uri", "tag"),
    [
        ("<sip:a@b>", "", "sip:a@b", None),
        ("sip:a@b;tag=1", "", "sip:a@b", "1"),
        ('"A \\"quoted\\" name" <sip:a@b;x=1>;tag=2', 'A "quoted" name', "sip:a@b;x=1", "2"),
        ("A Name<sip:a@b> ; tag = 3", "A Name", "sip:a@b", "3"),
        ('"<sip:no@no>;tag=no" <sip:a@b>;other;tag=4', "<sip:no@no>;tag=no", "sip:a@b", "4"),
    ],
)
def test_name_addr(text, display, uri, tag):
    found = read_name_addr(text)
    assert (display_name(found), str(found.uri), found.tag) == (display, uri, tag)
    assert read_name_addr(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["", "<", "<sip:a@b", 'x"y" <sip:a@b>', "a,b <sip:a@b>", "<sip:a@b>;=", "<sip:a@b>;x=(", '"a" "b" <sip:a@b>'],
)
def test_what_is_no_name_addr(text):
    with pytest.raises(SipError):
        read_name_addr(text)


def test_via():
    via = read_via("SIP/2.0/UDP 10.0.0.7:5070;branch=z9hG4bKx;rport")
    assert via.stamp(Address("udp", "192.0.2.1", 99)).reply_to == Address("udp", "192.0.2.1", 99)
    assert read_via("SIP/2.0/UDP host").reply_to == Address("udp", "host", 5060)
    assert read_via("SIP/2.0/TCP host:7").stamp(Address("tcp", "192.0.2.1", 99)).reply_to == Address(
        "tcp", "192.0.2.1", 7
    )
    assert read_via("SIP/2.0/UDP [2001:db8::9];received=[2001:db8::1]").reply_to.host == "2001:db8::1"
    assert Via("UDP", "::1", 5).sent_by == "[::1]:5"
    assert read_via("SIP/2.0/UDP h;branch=z9hG4bK").branch is None
    assert read_via("SIP/2.0/UDP h;rport=x").reply_to.port == 5060
    for text in ("", "SIP/2.0/UDP", "SIP/1.0/UDP host", "HTTP/2.0/UDP host", "SIP/2.0/UDP host;branch=a b"):
        with pytest.raises(SipError):
            read_via(text)
    for text in ("", "1", "x INVITE", "-1 INVITE", "1 ", "2147483648 INVITE", "１ INVITE"):
        with pytest.raises(SipError):
            read_cseq(text)


def test_addresses_as_people_write_them():
    assert read_address("127.0.0.1:5070") == Address("udp", "127.0.0.1", 5070)
    assert read_address("tcp:[::1]") == Address("tcp", "::1", 5060)
    assert str(read_address("TCP:[::1]:9")) == "tcp:[::1]:9"
    with pytest.raises(SipError, match="is not a host name or address"):
        read_address("udp:")
    with pytest.raises(SipError, match="something other than a port"):
        read_host_port("[::1]x")


def test_parameters():
    assert read_params(["Name=Value", "alone", 'q="a;b"']) == (("name", "Value"), ("alone", None), ("q", '"a;b"'))
    assert write_params((("a", None), ("b", "c"))) == ";a;b=c"
    assert (param((("a", None),), "a"), param((), "a")) == ("", None)
    assert unquote(quote('a"\\b')) == 'a"\\b'
    assert split('a;"b;c";<d;e>;', ";") == ["a", '"b;c"', "<d;e>", ""]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (message("OPTIONS sip:a SIP/2.0", "X: " + "x" * 70_000), "a message of"),
        (message("OPTIONS sip:a SIP/2.0", "X: " + "x" * 9_000), "a line of more than 8192"),
        (message("OPTIONS sip:a SIP/2.0", "X: a" + "\n b" * 9_000), "a line of more than 8192"),
        (message("OPTIONS sip:a SIP/2.0", *["X: y"] * 130), "more than 128 header fields"),
        (message("OPTIONS sip:a SIP/2.0", "no colon"), "is not a header field"),
        (message("OPTIONS sip:a SIP/2.0", "bad name: x"), "is not a header field"),
        (message("(OPTIONS) sip:a SIP/2.0"), "does not begin with a method"),
        (message("SIP/3.0 200 OK"), "is not a status line"),
        (message("SIP/2.0 099 OK"), "a status is between 100 and 699"),
        (message("SIP/2.0 700 OK"), "it has to be at most 699"),
        (b"OPTIONS sip:a SIP/2.0\nVia: x\n\n", "lines end with CR LF"),
    ],
)
def test_limits_and_forms(data, says):
    with pytest.raises(SipError, match=says):
        read_message(data)


def test_too_many_values():
    many = ", ".join(["<sip:a@b>"] * 65)
    with pytest.raises(SipError, match="more than 64 values"):
        check_request(read_message(message("OPTIONS sip:a SIP/2.0", f"Route: {many}")))
    half = ", ".join(["<sip:a@b>"] * 40)
    with pytest.raises(SipError, match="more than 64 values"):
        check_request(read_message(message("OPTIONS sip:a SIP/2.0", f"Route: {half}", f"Route: {half}")))


@pytest.mark.parametrize(
    "field",
    ["Contact: *, <sip:a@b>", "Route: nonsense", "Expires: x", "Call-ID: a b", "Content-Type: nonsense", "Via: ,",
     "Min-Expires: 99999999999"],
)  # fmt: skip
def test_what_the_check_finds(field):
    with pytest.raises(SipError):
        check_request(read_message(message("OPTIONS sip:a@b SIP/2.0", field)))


def test_a_reply_takes_what_belongs_to_it():
    request = read_message(message("INVITE sip:a@b SIP/2.0", "Record-Route: <sip:p;lr>"))
    assert reply(request.headers, 200, "x").headers.get("to") == "<sip:user@example.com>;tag=x"
    assert "record-route" in reply(request.headers, 200).headers
    assert "record-route" not in reply(request.headers, 404).headers
    assert reply(request.headers, 299).reason == "Unknown"
    broken = Headers([("to", '"')])
    assert reply(broken, 400, "x").headers.get("to") == '";tag=x'
    assert Response(status=200, reason="OK").copy().start_line == "SIP/2.0 200 OK"


# -- streams


def test_a_stream_is_cut_into_messages_wherever_it_breaks():
    whole = b"\r\n\r\n".join([message("INVITE sip:a@b SIP/2.0", body=SDP), message("OPTIONS sip:a@b SIP/2.0")] * 3)
    expected = Framer().feed(whole)
    assert len(expected) == 6
    for size in (1, 2, 3, 7, 100):
        framer, found = Framer(), []
        for start in range(0, len(whole), size):
            found += framer.feed(whole[start : start + size])
        assert found == expected
        assert framer.pending == 0


@pytest.mark.parametrize(
    "data",
    [
        message("OPTIONS sip:a@b SIP/2.0", drop=("content-length",)),
        message("OPTIONS sip:a@b SIP/2.0", "Content-Length: 99999999"),
        message("OPTIONS sip:a@b SIP/2.0", "l: -1"),
        b"x" * 70_000,
    ],
)
def test_a_stream_that_cannot_be_cut(data):
    with pytest.raises(SipError):
        Framer().feed(data)


def test_a_slow_stream_costs_time_in_proportion_to_its_bytes():
    framer = Framer()
    for _ in range(65_000):
        framer.feed(b"x")
    assert framer.pending == 65_000


# -- chance


def read_and_check(data):
    """Everything that is done with a message that comes in."""
    found = read_message(data)
    (check_request if isinstance(found, Request) else check_response)(found)
    return [found.via, found.cseq, found.sender, found.receiver, found.contact, found.call_id]


@given(st.binary(max_size=400))
@settings(max_examples=300)
def test_any_bytes(data):
    for start in (b"", b"INVITE sip:a@b SIP/2.0\r\n", b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a\r\n"):
        try:
            read_and_check(start + data + b"\r\n\r\n")
        except SipError as error:
            assert str(error)


@given(st.text(alphabet='";<>,\\=%@:sip?/[] \taé\x00', max_size=60))
@settings(max_examples=300)
def test_any_text_in_every_place(text):
    for reading in (read_uri, read_name_addr, read_via, read_cseq, read_host_port, Headers([("route", text)]).values):
        try:
            reading("route" if reading.__name__ == "values" else text)
        except SipError as error:
            assert str(error)


@given(
    st.text(max_size=300)
    | st.lists(st.sampled_from([*SDP.split("\n"), "m=", "c=", "o=", "a=", "m=a 1 b c"])).map("\n".join)
)
@settings(max_examples=300)
def test_any_description(text):
    try:
        session = read_sdp(text.encode("utf-8", "surrogatepass"))
    except SipError:
        return
    try:
        assert session.media.port > 0
    except SipError as error:
        assert error.status == 488


def mutated(data, chance):
    """One to four changes: a byte, a piece that is repeated, moved or left out, or a piece of another message."""
    data = bytearray(data)
    for _ in range(1 + chance.randrange(4)):
        at_, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
        match chance.randrange(5):
            case 0 if data:
                data[chance.randrange(len(data))] = chance.choice(b'\x00\xff";<>,:@\r\n= 0aZ')
            case 1:
                data[at_:at_] = data[at_ : at_ + 40] * chance.randrange(1, 4)
            case 2:
                del data[at_ : min(end, at_ + 60)]
            case 3:
                data[at_:at_] = chance.choice(TORTURES)[:200]
            case _:
                data[at_:end] = bytes(reversed(data[at_:end]))[:50]
    return bytes(data)


def test_mutations_of_every_message_at_every_machine():
    """A user agent inside a session and a proxy take whatever comes: nothing is raised, and answers are SIP."""
    chance = Random(4475)
    scene = Scene(home=True)
    for one in (scene.broker, scene.agent):
        scene.ask(one, "register")
    scene.run(1)
    call = scene.call()
    scene.ask(scene.agent, "reinvite", call, media(8))
    scene.run(3)
    genuine = [data for *_, data in scene.sent]
    scene.loss, scene.react = 1.0, lambda machine, fact: None
    for number in range(1_000):
        data = mutated(chance.choice(genuine if number % 2 else TORTURES), chance)
        for machine in (scene.broker, scene.agent, scene.proxy):
            scene.now, before = 3.0 + number / 1_000, len(scene.sent)
            scene.receive(machine, data, at(9))
            for *_, answer in scene.sent[before:]:
                read_message(answer)
    scene.loss = 0.0
    scene.run(400)
    for machine in (scene.broker, scene.agent):
        assert len(machine.inspect()["clients"]) < 10
        assert machine.inspect()["servers"] == {}
    assert BROKER in scene.proxy.location.users(scene.now)


@pytest.mark.parametrize(
    "piece",
    [
        b'"',
        b'"\\',
        b'\\"',
        b"<",
        b">",
        b",",
        b";",
        b"(",
        b"%",
        b"@",
        b":",
        b" ",
        b"\t",
        b"=",
        b"\r\n ",
        b";a=",
        b'"a",',
        b"\xff",
        b"[",
        b"a.",
        b"-",
    ],
)
def test_time_does_not_blow_up(piece):
    """64 KiB of any one thing in any place; a pattern that goes back over its text would take minutes."""
    long = (piece * 60_000)[:7_000]
    for field in (
        b"From",
        b"Via",
        b"Contact",
        b"Route",
        b"CSeq",
        b"Call-ID",
        b"Date",
        b"Content-Type",
        b"Authorization",
        b"Accept",
    ):
        data = b"INVITE sip:a@b SIP/2.0\r\n" + b"".join(field + b": " + long + b"\r\n" for _ in range(8)) + b"\r\n"
        try:
            read_and_check(data)
        except SipError as error:
            assert str(error)
    for text in (long.decode("latin-1"), "sip:" + long.decode("latin-1"), "sip:a@" + long.decode("latin-1")):
        for reading in (read_uri, read_name_addr, read_via, lambda text: Headers([("route", text)]).values("route")):
            try:
                reading(text)
            except SipError as error:
                assert len(str(error)) < 400
    try:
        read_sdp((b"v=0\r\n" + long + b"\r\n") * 2)
    except SipError as error:
        assert str(error)


def test_limits_can_be_chosen():
    with pytest.raises(SipError, match="at most 100"):
        read_message(VALID["wsinv"], SipLimits(message_bytes=100))
    assert LIMITS.message_bytes == 65_536
