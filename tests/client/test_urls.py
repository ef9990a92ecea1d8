"""Where a service is: URLs, contexts, the environment."""

import msgspec
import pytest

from recado.client.errors import AddressError
from recado.client.http import HttpClient
from recado.client.urls import (
    Contexts,
    SipTarget,
    Target,
    check_context_name,
    contexts_path,
    parse_url,
    read_contexts,
    resolve,
    write_contexts,
)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("recado://localhost", Target(hosts=(("localhost", 7230),))),
        ("recado://ana@localhost:7231", Target(hosts=(("localhost", 7231),), user="ana")),
        ("recado://ana:t0k@h", Target(hosts=(("h", 7230),), user="ana", token="t0k")),
        ("recado://:t0k@h", Target(hosts=(("h", 7230),), token="t0k")),
        ("recado://ana%40x.org@a:1,b", Target(hosts=(("a", 1), ("b", 7230)), user="ana@x.org")),
        ("recado://ana@x.org@a", Target(hosts=(("a", 7230),), user="ana@x.org")),
        ("recado://[::1]:5", Target(hosts=(("::1", 5),))),
        ("recados://h", Target(hosts=(("h", 7230),), tls=True)),
        ("wss://h/prefix/v1/session", Target(hosts=(("h", 443),), tls=True, prefix="/prefix")),
        ("http://h:7230/?device=phone", Target(hosts=(("h", 7230),), device="phone")),
        (
            "recado+sip://ana:pw@x.org;registrar=127.0.0.1:5070;transport=tcp;profile=lab?device=d1",
            Target(
                user="ana",
                token="pw",
                device="d1",
                sip=SipTarget(
                    domain="x.org",
                    registrar=("127.0.0.1", 5070),
                    broker="sip:broker@x.org",
                    transport="tcp",
                    profile="lab",
                ),
            ),
        ),
    ],
)
def test_urls_that_lead_somewhere(url, target):
    assert parse_url(url) == target


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("localhost:7230", "is not a URL such as recado://"),
        ("mqtt://h", "mqtt:// leads to no service"),
        ("recado://", "is not a host"),
        ("recado://h:port", "is not a host"),
        ("recado://a,,b", "is not a host"),
        ("recado://h?colour=red", "no option 'colour'"),
        ("recado+sip://x.org", "names no user"),
        ("recado+sip://a@x.org;transport=smoke", "udp, tcp or tls"),
        ("recado+sip://a@x.org;t1=soon", "number of seconds"),
        ("recado+sip://a@x.org;t1=nan", "number of seconds"),
        ("recado+sip://a@x.org;profile=slow", "profile is one of"),
        ("recado+sip://a@x.org;broker=nobody", "should look like sip:user@host"),
        ("recado+sip://a@x.org;speed=1", "no option 'speed'"),
    ],
)
def test_urls_that_do_not(url, told):
    with pytest.raises(AddressError, match=told):
        parse_url(url)


@pytest.mark.parametrize("url", ["recado://a:secret@", "recado+sip://a:secret@x.org;speed=1", "mqtt://a:secret@h"])
def test_no_error_tells_the_token(url):
    with pytest.raises(AddressError) as told:
        parse_url(url)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("token", ["se%0D%0Acret", "se cret", "secr%C3%A9t", "secret%00"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_told(token):
    """It stood in the traceback of the connection, and in the error of the commands that use HTTP."""
    with pytest.raises(AddressError, match="no token has") as told:
        parse_url(f"recado://ana:{token}@localhost")
    assert "cr" not in str(told.value).replace("character", "")
    with pytest.raises(AddressError, match="no token has"):
        resolve(environment={"RECADO_TOKEN": "a\nb"})


def test_a_user_that_no_header_can_hold_is_refused():
    for user in ("jos%C3%A9", "a b", "a%0Ab"):
        with pytest.raises(AddressError, match="cannot name a user"):
            parse_url(f"recado://{user}@localhost")
    with pytest.raises(AddressError, match="'josé' cannot name a user"):
        msgspec.structs.replace(parse_url("recado://localhost"), user="josé")


def test_a_host_that_cannot_be_is_told():
    with HttpClient(parse_url("recado://☃.example")) as http, pytest.raises(AddressError, match="leads to no service"):
        http.call("GET", "/v1/sessions")


def test_what_a_target_becomes():
    target = parse_url("recados://a%3Ab@h:1,[::2]:3/p")
    assert target.websocket(target.hosts[0]) == "wss://h:1/p/v1/session?user=a%3Ab"
    assert target.http(target.hosts[1]) == "https://[::2]:3/p"
    assert target.description() == "h:1, [::2]:3"
    assert "secret" not in parse_url("recado://a:secret@h").description()
    assert parse_url("recado+sip://a@x.org;registrar=h:1").description() == "sip:a@x.org via h:1"


def test_flags_before_environment_before_context(tmp_path):
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert resolve(environment=environment).hosts == (("127.0.0.1", 7230),)
    write_contexts(Contexts("home", {"home": "recado://home", "work": "recado://work"}), contexts_path(environment))
    assert contexts_path(environment).stat().st_mode & 0o777 == 0o600
    assert resolve(environment=environment).hosts[0][0] == "home"
    assert resolve(environment={**environment, "RECADO_CONTEXT": "work"}).hosts[0][0] == "work"
    environment["RECADO_URL"] = "recados://ana@env"
    assert resolve(environment=environment).hosts[0][0] == "env"
    assert resolve(context="work", environment=environment).hosts[0][0] == "work"
    assert resolve("recado://flag", environment=environment).hosts[0][0] == "flag"
    environment["RECADO_TOKEN"] = "tok"
    assert resolve(environment=environment).token == "tok"
    assert resolve("recado://a:own@h", environment=environment).token == "own"
    with pytest.raises(AddressError, match="home, work"):
        resolve(context="elsewhere", environment=environment)


def test_a_token_of_the_environment_goes_to_its_own_service_alone(tmp_path):
    base = {"XDG_CONFIG_HOME": str(tmp_path), "RECADO_TOKEN": "tok"}
    write_contexts(Contexts("", {"work": "recados://work"}), contexts_path(base))
    assert resolve(environment=base).token == "tok"
    assert resolve("recado://localhost:99", environment=base).token == "tok"
    for elsewhere in ("recados://evil.example", "https://127.0.0.1,evil.example", "recado+sip://a@evil.example"):
        with pytest.raises(AddressError, match=r"is not sent to evil\.example"):
            resolve(elsewhere, environment=base)
    with pytest.raises(AddressError, match="is not sent to work"):
        resolve(context="work", environment=base)
    assert resolve(environment={**base, "RECADO_CONTEXT": "work"}).token == "tok"
    assert resolve("recados://work:1", environment={**base, "RECADO_TOKEN_HOST": "work"}).token == "tok"
    for named in ({"RECADO_URL": "recado://far.example"}, {"RECADO_TOKEN_HOST": "far.example"}):
        with pytest.raises(AddressError, match="unencrypted; use recados://"):
            resolve("recado://far.example", environment={**base, **named})
        allowed = {**base, **named, "RECADO_INSECURE": "1"}
        assert resolve("recado://far.example", environment=allowed).token == "tok"


def test_contexts_that_cannot_be_read(tmp_path):
    path = tmp_path / "contexts.json"
    path.write_text("{")
    with pytest.raises(AddressError, match="cannot be read"):
        read_contexts(path)
    with pytest.raises(AddressError, match="cannot name a context"):
        check_context_name("a b")
    assert contexts_path({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}).parts[1] == "h"
