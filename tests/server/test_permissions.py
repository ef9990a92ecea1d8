"""The one function that decides, against a table, and tokens."""

from __future__ import annotations

import itertools
import random
from fnmatch import fnmatchcase

import pytest

from recado.errors import RecadoError
from recado.server.config import Access
from recado.server.permissions import (
    Denied,
    Principal,
    anonymous,
    authorise,
    check_device,
    check_user,
    may_publish,
    may_subscribe,
)
from recado.server.tokens import TokenError, Tokens, add_token, hash_token, make_token, revoke_token


def allowed(who, action, **what):
    try:
        authorise(who, action, **what)
    except Denied:
        return False
    return True


@pytest.mark.parametrize("action", ["publish", "subscribe", "read", "manage", "administer"])
@pytest.mark.parametrize("user", [None, "ana", "ben"])
@pytest.mark.parametrize("admin", [True, False])
def test_whose(action, user, admin):
    who = Principal("ana", admin=admin)
    assert allowed(who, action, user=user) == (admin or (action != "administer" and user != "ben"))


@pytest.mark.parametrize(
    ("allow", "deny", "type", "publish", "subscribe"),
    [
        (("*",), (), "a.b", True, True),
        (("*",), (), "", True, True),
        ((), (), "a", False, False),
        (("a",), (), "a", True, True),
        (("a",), (), "b", False, False),
        (("a",), (), "", False, False),
        (("a.*",), (), "a.b", True, True),
        (("a.*",), (), "ab", False, False),
        (("a.*",), (), "a.b*", True, True),
        (("a.*",), (), "*", False, False),
        (("a.*",), (), "a*", False, False),
        (("*",), ("a",), "a", False, False),
        (("*",), ("a",), "b", True, True),
        (("*",), ("a.*",), "a.b", False, False),
        (("?",), (), "x", True, True),
        (("?",), (), "xy", False, False),
        (("*",), ("secret.*",), "", True, False),
    ],
)
def test_types(allow, deny, type, publish, subscribe):
    who = Principal("ana", publish=allow, deny_publish=deny, subscribe=allow, deny_subscribe=deny)
    if "*" not in type:
        assert allowed(who, "publish", event_type=type) == publish
    assert allowed(who, "subscribe", event_type=type) == subscribe


def test_a_pattern_that_may_be_subscribed_takes_nothing_that_is_denied():
    """Random policies: every type that an allowed subscription takes is allowed by itself."""
    rng = random.Random(1)
    types = ["".join(letters) for length in (1, 2, 3) for letters in itertools.product("ab.", repeat=length)]
    patterns = ["*", "a", "b", "a*", "*b", "a.*", "?", "a?", "*.*", "b*a", "ab", "??"]
    granted = 0
    for _ in range(2_000):
        allow = tuple(rng.sample(patterns, rng.randrange(1, 4)))
        deny = tuple(rng.sample(patterns[1:], rng.randrange(0, 3)))
        wanted = rng.choice(patterns)
        if may_subscribe(allow, deny, wanted):
            granted += 1
            for type in types:
                if fnmatchcase(type, wanted):
                    assert may_publish(allow, deny, type)
    assert granted > 100


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a#", "+*", "é", "a" * 257, "a\n"])
def test_names_that_are_none(name):
    with pytest.raises(RecadoError, match="cannot name a user"):
        check_user(name)
    with pytest.raises(RecadoError, match="cannot name a device"):
        check_device(name)


def test_names():
    assert check_user("sip:ana@example.org") == "sip:ana@example.org"
    assert check_device("a-1_b.c") == "a-1_b.c"


def test_anonymous_has_the_default_rights():
    who = anonymous(Access(default_publish=("x",), default_subscribe=()), "ana")
    assert allowed(who, "publish", event_type="x")
    assert not allowed(who, "subscribe", event_type="x")
    assert not who.admin


def test_tokens(tmp_path):
    path = tmp_path / "tokens"
    ana = add_token(path, "phone", "ana")
    root = add_token(path, "root", "root", admin=True, deny_publish=("x",))
    assert path.stat().st_mode & 0o777 == 0o600
    assert ana not in path.read_text()
    tokens = Tokens(path)
    who = tokens.find(ana)
    assert who == Principal("ana", name="phone", token=hash_token(ana))
    assert tokens.current(who) == who
    assert tokens.find(root).admin
    assert tokens.find("") is tokens.find(make_token()) is tokens.find("x" * 1000) is tokens.find("\ud800") is None
    with pytest.raises(TokenError, match="already"):
        add_token(path, "phone", "ben")
    revoke_token(path, "phone")
    assert tokens.find(ana) is not None
    tokens.reload()
    assert tokens.find(ana) is None
    assert tokens.current(who) is None
    assert tokens.current(Principal("ana")) == Principal("ana")  # without a token there is none to lose
    with pytest.raises(TokenError, match="no token"):
        revoke_token(path, "phone")


def test_a_token_file_that_cannot_be_trusted_is_refused(tmp_path):
    path = tmp_path / "tokens"
    token = add_token(path, "phone", "ana")
    tokens = Tokens(path)
    path.chmod(0o644)
    with pytest.raises(TokenError, match="chmod 600"):
        tokens.reload()
    path.chmod(0o600)
    good = path.read_bytes()
    for line in (
        b"{",
        b"{}",
        b'{"name": "x", "user": "a b", "sha256": "%b"}' % (b"0" * 64),
        b'{"name": "x", "user": "a", "sha256": "short"}',
        b'{"name": "x", "user": "a", "sha256": "%b", "amin": true}' % (b"0" * 64),
        b"\xff",
    ):
        path.write_bytes(good + line + b"\n")
        with pytest.raises(TokenError, match="line 2"):
            tokens.reload()
    assert tokens.find(token) is not None  # as they were
    with pytest.raises(TokenError, match="cannot be read"):
        Tokens(tmp_path / "none")
    assert len(Tokens()) == 0


def test_tokens_are_long_and_differ():
    made = {make_token() for _ in range(100)}
    assert len(made) == 100
    assert min(map(len, made)) >= 43
    assert hash_token("x") == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
