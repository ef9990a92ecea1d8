"""The hello, without any socket: two handshakes talk to each other."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recado.overlay.hello import (
    VERSION,
    Accept,
    Handshake,
    Hello,
    Ping,
    Proof,
    Refuse,
    RefusedError,
    decode_control,
    encode_control,
)
from recado.overlay.limits import HelloError, LinkError


def hello(name, **changes):
    return msgspec.structs.replace(Hello(VERSION, "test", "flood", name, name[0].encode() * 16), **changes)


def pair(first="ana", second="bruno", key=b"k" * 16, other_key=None, **changes):
    dialler = Handshake(hello(first), key, dialled=True)
    listener = Handshake(hello(second, **changes), key if other_key is None else other_key, dialled=False)
    return dialler, listener


def talk(dialler, listener):
    """Carry everything to and fro until both are silent; what went over the wire."""
    said = []
    there, back = dialler.begin(), []
    while there or back:
        said += [*there, *back]
        answers = [answer for message in there for answer in listener.receive(encode_control(message))]
        there = [answer for message in back for answer in dialler.receive(encode_control(message))]
        back = answers
    return said


@pytest.mark.parametrize("key", [b"", b"secret" * 4])
@pytest.mark.parametrize(("first", "second"), [("ana", "bruno"), ("bruno", "ana")])
def test_both_prove_themselves_and_the_greater_name_accepts(first, second, key):
    dialler, listener = pair(first, second, key)
    talk(dialler, listener)
    assert dialler.proven
    assert listener.proven
    assert (dialler.peer.node, listener.peer.node) == (second, first)
    assert dialler.decides is (first > second)
    decider, other = (dialler, listener) if dialler.decides else (listener, dialler)
    assert not other.accepted
    assert other.receive(encode_control(decider.accept())) == []
    assert dialler.accepted
    assert listener.accepted


@pytest.mark.parametrize(("key", "other"), [(b"a" * 16, b"b" * 16), (b"", b"b" * 16), (b"a" * 16, b"")])
def test_another_key_is_refused(key, other):
    with pytest.raises(HelloError, match="the shared keys differ"):
        talk(*pair(key=key, other_key=other))


def test_a_listener_proves_nothing_to_somebody_without_the_key():
    dialler, listener = pair(key=b"wrong" * 4, other_key=b"right" * 4)
    (greeting,) = listener.receive(encode_control(dialler.begin()[0]))
    (proof,) = dialler.receive(encode_control(greeting))
    assert isinstance(greeting, Hello)
    with pytest.raises(HelloError):
        listener.receive(encode_control(proof))


def test_a_proof_cannot_be_sent_back_to_its_maker():
    dialler, listener = pair()
    (greeting,) = listener.receive(encode_control(dialler.begin()[0]))
    (proof,) = dialler.receive(encode_control(greeting))
    with pytest.raises(HelloError, match="keys differ"):
        dialler.receive(encode_control(proof))


def test_an_old_proof_is_worth_nothing_on_a_new_connection():
    said = talk(*pair())
    old = next(message for message in said if isinstance(message, Proof))
    listener = Handshake(hello("bruno", nonce=b"n" * 16), b"k" * 16, dialled=False)
    listener.receive(encode_control(hello("ana")))
    with pytest.raises(HelloError, match="keys differ"):
        listener.receive(encode_control(old))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "speaks version 1 and the other side version 2"),
        ({"overlay": "elsewhere"}, "this is overlay 'elsewhere' and the other side is of overlay 'test'"),
        ({"protocol": "trees"}, "this is protocol 'trees' and the other side is of protocol 'flood'"),
        ({"node": "ana"}, "both sides are called 'ana'"),
        ({"node": "../etc"}, "is no name of a node"),
        ({"node": "x" * 65}, "is no name of a node"),
        ({"nonce": b"short"}, "a nonce has 16 bytes, not 5"),
    ],
)
def test_a_hello_that_does_not_fit_says_why(changes, message):
    with pytest.raises(HelloError, match=message):
        talk(*pair(**changes))


def test_a_later_version_is_recognised_whatever_else_it_says():
    listener = pair()[1]
    with pytest.raises(HelloError, match="version 9"):
        listener.receive(msgspec.msgpack.encode(["hello", 9, {"quite": "different"}]))


def test_unknown_capabilities_and_later_fields_are_ignored():
    listener = pair()[1]
    fields = [*msgspec.msgpack.decode(encode_control(hello("ana"))), ["zstd"], "a later field"]
    assert listener.receive(msgspec.msgpack.encode(fields)) != []
    assert listener.peer.node == "ana"


@pytest.mark.parametrize("message", [Ping(), Accept(), hello("ana")])
def test_nothing_comes_out_of_turn(message):
    listener = pair()[1]
    listener.receive(encode_control(hello("ana")))
    with pytest.raises(LinkError, match="out of turn"):
        listener.receive(encode_control(message))


def test_a_refusal_carries_its_reason():
    dialler = pair()[0]
    with pytest.raises(RefusedError, match="refused: too many") as caught:
        dialler.receive(encode_control(Refuse("too many")))
    assert not caught.value.linked


@given(st.binary(max_size=64))
def test_garbage_instead_of_a_hello_is_refused(garbage):
    with pytest.raises(HelloError):
        pair()[1].receive(garbage)


@given(st.binary(max_size=64))
def test_garbage_instead_of_control_is_refused_or_read(garbage):
    try:
        decode_control(garbage)
    except LinkError as error:
        assert "control frame" in str(error)
