"""Where a service is: URLs, contexts, the environment."""

import pytest

from recado.client.errors import AddressError
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
        ("recado+sip://a@x.org;transport=smoke", "udp or tcp"),
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
    environment["RECADO_URL"] = "recado://ana@env"
    assert resolve(environment=environment).hosts[0][0] == "env"
    assert resolve(context="work", environment=environment).hosts[0][0] == "work"
    assert resolve("recado://flag", environment=environment).hosts[0][0] == "flag"
    environment["RECADO_TOKEN"] = "tok"
    assert resolve(environment=environment).token == "tok"
    assert resolve("recado://a:own@h", environment=environment).token == "own"
    with pytest.raises(AddressError, match="home, work"):
        resolve(context="elsewhere", environment=environment)


def test_contexts_that_cannot_be_read(tmp_path):
    path = tmp_path / "contexts.json"
    path.write_text("{")
    with pytest.raises(AddressError, match="cannot be read"):
        read_contexts(path)
    with pytest.raises(AddressError, match="cannot name a context"):
        check_context_name("a b")
    assert contexts_path({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}).parts[1] == "h"
