"""Digest authentication: the RFC's vectors, both halves against each other, and what a thief may try."""

from random import Random

import pytest

from protocols.sip.cast import BROKER, USER, Scene, media
from protocols.sip.world import at
from recado.protocols.sip.agent import UserAgent
from recado.protocols.sip.digest import Authenticator, Credentials, Guard, answer_of, is_stale, read_fields, secret_of
from recado.protocols.sip.events import AgentSettings, Established, Failed, Incoming, Registered, RegistrationFailed
from recado.protocols.sip.messages import Headers, Request
from recado.protocols.sip.text import SipError
from recado.protocols.sip.uri import read_uri

KNOWN = {"user1": "secret", "broker": "secret"}


def guard(**more):
    def lookup(username, realm, algorithm):
        return secret_of(algorithm, username, realm, KNOWN[username]) if username in KNOWN else None

    return Guard("lac", lookup, b"key", **more)


def request(uri="sip:lac.example", method="REGISTER"):
    made = Request(method=method, uri=uri)
    for name, value in (("to", "<sip:user1@lac.example>"), ("from", "<sip:user1@lac.example>;tag=1")):
        made.headers.add(name, value)
    return made


def signed(keeper, credentials=None, now=0.0):
    client = Authenticator(credentials or Credentials("user1", "secret"))
    headers = Headers()
    keeper.challenge(headers, "www-authenticate", now, stale=False)
    assert client.learn(headers)
    made = request()
    client.sign(made, Random(1))
    return client, made


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ],
)
def test_the_vectors_of_rfc_7616(algorithm, expected):
    fields = {
        "algorithm": algorithm, "uri": "/dir/index.html", "nonce": "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
        "nc": "00000001", "cnonce": "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ", "qop": "auth",
    }  # fmt: skip
    secret = secret_of(algorithm, "Mufasa", "http-auth@example.org", "Circle of Life")
    assert answer_of(secret, "GET", fields) == expected


def test_without_qop_as_rfc_2069_has_it():
    fields = {"uri": "/dir/index.html", "nonce": "dcd98b7102dd2f0e8b11d0f600bfb0c093"}
    secret = secret_of("MD5", "Mufasa", "testrealm@host.com", "Circle Of Life")
    assert answer_of(secret, "GET", fields) == "670fd8c2df070c60b045671b8b24ff02"


@pytest.mark.parametrize("algorithms", [("MD5",), ("SHA-256",), ("SHA-256", "MD5")])
def test_both_halves_agree(algorithms):
    keeper = guard(algorithms=algorithms)
    client, made = signed(keeper)
    assert read_fields(made.headers.get("authorization"))["algorithm"] == algorithms[0]
    assert keeper.judge(made, "authorization", 1.0) == ("right", "user1")
    client.sign(made, Random(2))
    assert keeper.judge(made, "authorization", 2.0) == ("right", "user1")  # the next count of the same nonce


def test_what_a_thief_may_try():
    keeper = guard()
    _, made = signed(keeper)
    assert keeper.judge(made, "authorization", 0.0)[0] == "right"
    assert keeper.judge(made, "authorization", 0.0)[0] == "stale"  # the same again
    assert keeper.judge(signed(keeper)[1], "authorization", 301.0)[0] == "stale"  # too old
    assert keeper.judge(signed(keeper, now=100.0)[1], "authorization", 0.0)[0] == "stale"  # from the future
    other = signed(keeper)[1]
    other.method = "INVITE"
    assert keeper.judge(other, "authorization", 0.0)[0] == "wrong"  # for another request
    foreign = signed(Guard("lac", lambda *_: None, b"another key"))[1]
    assert keeper.judge(foreign, "authorization", 0.0)[0] == "stale"  # a nonce of its own
    assert keeper.judge(signed(keeper, Credentials("nobody", ""))[1], "authorization", 0.0)[0] == "wrong"
    elsewhere = signed(keeper)[1]
    elsewhere.uri = "sip:other.example"
    elsewhere.headers.set("to", "<sip:x@other.example>")
    assert keeper.judge(elsewhere, "authorization", 0.0)[0] == "wrong"


def test_a_captured_request_is_refused_however_often_it_comes():
    """The count of a refused one was forgotten, so every second replay passed."""
    keeper = guard()
    client, made = signed(keeper)
    assert keeper.judge(made, "authorization", 0.0)[0] == "right"
    assert [keeper.judge(made, "authorization", 1.0)[0] for _ in range(7)] == ["stale"] * 7
    client.sign(made, Random(2))
    assert keeper.judge(made, "authorization", 2.0)[0] == "right", "its owner goes on counting"
    assert [keeper.judge(made, "authorization", 3.0)[0] for _ in range(7)] == ["stale"] * 7


def test_a_captured_request_is_refused_also_when_its_nonce_was_forgotten():
    keeper = guard(nonces=10)
    _, made = signed(keeper)
    assert keeper.judge(made, "authorization", 0.0)[0] == "right"
    for _ in range(11):
        assert keeper.judge(signed(keeper)[1], "authorization", 0.0)[0] == "right"
    assert [keeper.judge(made, "authorization", 1.0)[0] for _ in range(3)] == ["stale"] * 3


@pytest.mark.parametrize(
    "text",
    [
        'Digest realm="lac"', "Digest", "Digest x", 'Digest realm="lac", username="user1', "Basic dXNlcg==",
        'Digest realm="lac", username="user1", nonce="1", uri="sip:lac.example", response="é", nc=1,cnonce="",qop=auth',
        'Digest realm="lac", username="user1", nonce="x", uri="://", response="", nc=zz, cnonce="", qop=auth',
    ],
)  # fmt: skip
def test_credentials_that_are_none(text):
    made = request()
    made.headers.add("authorization", text)
    assert guard().judge(made, "authorization", 0.0)[0] in ("wrong", "missing")


def test_a_count_that_is_no_number():
    keeper = guard(algorithms=("MD5",))
    _, made = signed(keeper)
    fields = read_fields(made.headers.get("authorization")) | {"nc": "zz"}
    fields["response"] = answer_of(secret_of("MD5", "user1", "lac", "secret"), "REGISTER", fields)
    made.headers.set("authorization", "Digest " + ", ".join(f'{name}="{value}"' for name, value in fields.items()))
    assert keeper.judge(made, "authorization", 0.0)[0] == "stale"


def test_the_memory_of_a_guard_is_bounded():
    keeper = guard(nonces=10)
    for number in range(50):
        assert keeper.judge(signed(keeper, now=float(number))[1], "authorization", float(number))[0] == "right"
    assert len(keeper._used) == 10


@pytest.mark.parametrize(
    "challenge",
    ["Basic realm=x", 'Digest realm="x"', 'Digest nonce="x"', "Digest",
     'Digest realm="x", nonce="y", algorithm=SHA-512-256',
     'Digest realm="x", nonce="y", qop="auth-int"'],
)  # fmt: skip
def test_challenges_that_cannot_be_answered(challenge):
    assert not Authenticator(Credentials("u", "p")).learn(Headers([("www-authenticate", challenge)]))
    assert not is_stale(Headers([("www-authenticate", challenge)]))


def test_a_password_is_not_shown():
    assert "secret" not in repr(Credentials("user1", "secret"))
    with pytest.raises(SipError):
        read_fields("Digest nothing")


# -- in a user agent


def scene_with(password, **more):
    scene = Scene(home=True, guard=guard(**more), credentials=Credentials("user1", password))
    settings = AgentSettings(user=BROKER, device="b", home=at(100), credentials=Credentials("broker", "secret"))
    scene.broker = scene.add(UserAgent(settings, at(1)), at(1))
    return scene


def test_register_and_call_with_a_password():
    scene = scene_with("secret")
    scene.ask(scene.broker, "register")
    scene.ask(scene.agent, "register")
    scene.run(1)
    assert scene.told(scene.agent, Registered)
    scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(2)
    assert scene.told(scene.agent, Established)
    assert scene.methods().count("401") == 2
    before = len(scene.sent)
    scene.run(200)
    refreshes = [data for _, _, to, data in scene.sent[before:] if to == at(100) and data.startswith(b"REGISTER")]
    assert refreshes
    assert all(b"Authorization: Digest" in data for data in refreshes)


def test_a_nonce_that_is_too_old_is_answered_with_a_new_one():
    scene = scene_with("secret", nonce_seconds=60.0)
    scene.ask(scene.agent, "register")
    scene.run(400)
    assert len(scene.told(scene.agent, Registered)) >= 3
    assert not scene.told(scene.agent, RegistrationFailed)
    assert any(b"stale=true" in data for *_, data in scene.sent)


def test_a_wrong_password():
    scene = scene_with("guess")
    scene.ask(scene.agent, "register")
    scene.ask(scene.agent, "invite", BROKER, media(7))
    scene.run(100)
    assert [one.status for one in scene.told(scene.agent, RegistrationFailed)] == [401]
    assert [one.status for one in scene.told(scene.agent, Failed)] == [407]
    assert scene.methods(at(7)).count("REGISTER") == 2


def test_no_password_at_all():
    scene = Scene(home=True, guard=guard())
    scene.ask(scene.agent, "register")
    scene.run(100)
    assert scene.methods(at(7)).count("REGISTER") == 1


def test_credentials_of_another_user_are_not_enough():
    scene = Scene(home=True, guard=guard(), credentials=Credentials("broker", "secret"))
    scene.ask(scene.agent, "register")
    scene.run(100)
    assert [one.status for one in scene.told(scene.agent, RegistrationFailed)] == [403]
    assert scene.proxy.location.users(scene.now) == {}


def test_a_user_agent_can_ask_for_proof_itself():
    scene = Scene(credentials=Credentials("user1", "secret"))
    settings = AgentSettings(user=BROKER, device="b")
    scene.broker = scene.add(UserAgent(settings, at(1), guard()), at(1))
    scene.call()
    assert scene.told(scene.agent, Established)
    assert [(one.user, one.proven) for one in scene.told(scene.broker, Incoming)] == [(USER, True)]
    assert scene.broker.inspect()["servers"].keys() == {
        key for key in scene.broker.inspect()["servers"] if "INVITE" in key
    }
    assert len(scene.broker.inspect()["servers"]) == 1  # the challenge left nothing behind


@pytest.mark.parametrize(
    ("username", "uri", "domains", "own"),
    [
        ("user1", "sip:user1@lac.example", (), True),
        ("user1", "sip:user1@other.example", (), True),
        ("user1", "sip:user1@other.example", ("LAC.example",), False),
        ("user1", "sip:User1@lac.example", ("lac.example",), False),
        ("user1@lac.example", "sip:user1@LAC.example", ("lac.example",), True),
        ("user1@lac.example", "sip:user1@other.example", (), False),
        ("1", "tel:1", (), False),
    ],
)
def test_whose_name_that_is(username, uri, domains, own):
    assert guard(domains=domains).is_own(username, read_uri(uri)) is own
