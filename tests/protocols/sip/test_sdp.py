"""Session descriptions: the text of the mobility document, answers, and what may be left out."""

import msgspec
import pytest

from recado.protocols.sip.sdp import RUDP, TCP, Media, accept, choose_line, describe, read_sdp, write_sdp
from recado.protocols.sip.text import SipError

TEXT = """v=0
o=user1 3896542011 2 IN IP4 10.0.0.7
s=MD-ECI
c=IN IP4 10.0.0.7
t=0 0
m=application 17080 UDP/RUDP eci
a=eci-version:1
a=eci-device:6f1c
a=rudp-conn:9a3c01d2
a=sendrecv
"""
MEDIA = Media(host="10.0.0.7", port=17_080, connection=0x9A3C01D2, device="6f1c")


def body(text):
    return text.replace("\n", "\r\n").encode()


def test_it_is_written_as_in_the_document():
    session = describe(MEDIA, "user1", 3896542011, 2)
    assert write_sdp(session) == body(TEXT)
    assert read_sdp(body(TEXT)) == session
    assert session.media == MEDIA


def test_lines_may_end_as_they_like_and_unknown_ones_are_skipped():
    text = TEXT.replace("t=0 0", "t=0 0\nb=AS:5\nk=none\nz=x") + "i=nothing\n\n"
    assert read_sdp(text.encode()).media == MEDIA


def test_ipv6_and_an_address_of_the_line():
    session = describe(msgspec.structs.replace(MEDIA, host="2001:db8::1"), "u", 1, 1)
    assert b"c=IN IP6 2001:db8::1" in write_sdp(session)
    assert read_sdp(write_sdp(session)) == session
    moved = TEXT.replace("c=IN IP4 10.0.0.7\n", "").replace("eci\n", "eci\nc=IN IP4 10.0.0.9/127\n")
    found = read_sdp(moved.encode())
    assert found.media.host == "10.0.0.9"
    assert read_sdp(write_sdp(found)).media == found.media


@pytest.mark.parametrize(
    ("change", "into"),
    [
        ("o=user1 3896542011 2 IN IP4 10.0.0.7\n", ""),
        ("o=user1 3896542011 2", "o=user1 3896542011 x"),
        ("c=IN IP4 10.0.0.7\n", ""),
        ("c=IN IP4 10.0.0.7", "c=nowhere"),
        ("m=application 17080 UDP/RUDP eci", "m=application"),
        ("m=application 17080", "m=application 70000"),
        ("s=MD-ECI", "this is no line"),
        ("m=application 17080 UDP/RUDP eci\n", "m=application 17080 UDP/RUDP eci\n" * 17),
    ],
)
def test_what_is_no_description(change, into):
    with pytest.raises(SipError) as caught:
        read_sdp(body(TEXT.replace(change, into)))
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("change", "into"),
    [
        ("UDP/RUDP eci", "UDP/RUDP other"),
        ("UDP/RUDP", "RTP/AVP"),
        ("application", "audio"),
        ("17080", "0"),
        ("m=", "x="),
    ],
)
def test_what_cannot_be_served(change, into):
    with pytest.raises(SipError, match=r"UDP/RUDP.* with eci is needed") as caught:
        choose_line(read_sdp(body(TEXT.replace(change, into))))
    assert caught.value.status == 488


def test_one_line_is_served_and_the_others_get_port_0():
    offer = TEXT.replace("m=app", "m=audio 4000/2 RTP/AVP 0 8\na=x\nm=application 5 TCP eci\nm=app") + "m=video 1 X y\n"
    session = read_sdp(body(offer))
    answer = accept(session, Media(host="10.0.0.1", port=9, connection=1), "broker", 7, 1)
    assert [(line.kind, line.protocol, line.port) for line in answer.lines] == [
        ("audio", "RTP/AVP", 0), ("application", TCP, 0), ("application", RUDP, 9), ("video", "X", 0),
    ]  # fmt: skip
    assert answer.media == Media(host="10.0.0.1", port=9, connection=1)
    assert read_sdp(write_sdp(answer)).media == answer.media
    second = accept(session, Media(host="10.0.0.1", port=9, protocol=TCP), "broker", 7, 1)
    assert [line.port for line in second.lines] == [0, 9, 0, 0]


def test_what_is_newer():
    session = describe(MEDIA, "u", 5, 2)
    for session_id, version, newer in ((5, 3, True), (5, 2, False), (5, 1, False), (6, 1, True)):
        assert describe(MEDIA, "u", session_id, version).newer_than(session) is newer


def test_attributes_that_say_nothing():
    found = read_sdp(body(TEXT.replace("9a3c01d2", "no-number").replace("6f1c", "two words"))).media
    assert (found.connection, found.device) == (None, None)
    for_all = TEXT.replace("t=0 0\n", "t=0 0\na=eci-device:shared\n").replace("a=eci-device:6f1c\n", "")
    assert read_sdp(body(for_all)).media.device == "shared"
    with pytest.raises(SipError, match="1 to 128 letters"):
        Media(host="x", port=1, device="a\r\nb=")


def test_what_the_device_has_seen_travels():
    media = Media(host="10.0.0.7", port=17080, connection=7, device="d1", seen=2**40, log="5d0c", confirms=True)
    written = write_sdp(describe(media, "ana", 1, 1))
    assert read_sdp(written).media == media
    assert read_sdp(written.replace(str(2**40).encode(), b"-1")).media.seen is None
    assert read_sdp(written.replace(b"5d0c", b"<script>")).media.log is None
    assert not read_sdp(written.replace(b"a=eci-confirms\r\n", b"")).media.confirms
