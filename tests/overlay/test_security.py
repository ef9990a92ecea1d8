"""Closed by default, and every refusal says what would be right."""

from pathlib import Path
from random import Random

import pytest

from recado.overlay.addresses import Address, Tls, check_listening, read_address, read_key
from recado.overlay.limits import OverlayError
from recado.overlay.links import Backoff

CERTIFICATES = Path(__file__).parent / "certificates"
TLS = Tls(CERTIFICATES / "node.pem", CERTIFICATES / "node.key", CERTIFICATES / "ca.pem")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:7701", "127.0.0.1", 7701),
        ("[::1]:0", "::1", 0),
        ("node-7.example.org:65535", "node-7.example.org", 65535),
    ],
)
def test_addresses(text, host, port):
    assert read_address(text) == Address(host, port)
    assert str(read_address(text)) == text


@pytest.mark.parametrize(
    "text", ["", "7701", "localhost", "host:", ":7701", "host:70000", "::1:7701", "host:-1", "h:x"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(OverlayError, match="is no address; write HOST:PORT"):
        read_address(text)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_key(host):
    check_listening(Address(host, 1), b"", None)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_other_addresses_need_a_key_or_certificates(host):
    address = Address(host, 1)
    with pytest.raises(OverlayError, match="a shared key is needed"):
        check_listening(address, b"", None)
    with pytest.raises(OverlayError):
        check_listening(address, b"", Tls(TLS.cert, TLS.key))
    check_listening(address, b"k" * 16, None)
    check_listening(address, b"", TLS)


def test_keys(tmp_path):
    path = tmp_path / "key"
    path.write_text("0123456789abcdef\n")
    assert read_key(path) == b"0123456789abcdef"
    path.write_text("short\n")
    with pytest.raises(OverlayError, match="has 5 bytes; at least 16 are needed"):
        read_key(path)
    with pytest.raises(OverlayError, match="cannot be read: No such file"):
        read_key(tmp_path / "none")


@pytest.mark.parametrize(("mode", "told"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_key_that_others_may_read_is_told(mode, told, tmp_path, caplog):
    path = tmp_path / "key"
    path.write_text("0123456789abcdef\n")
    path.chmod(mode)
    assert read_key(path) == b"0123456789abcdef"
    assert ("chmod 600" in caplog.text) is told


def test_tls_files_that_are_none_are_named(tmp_path):
    with pytest.raises(OverlayError, match="TLS cannot use"):
        Tls(tmp_path / "none", TLS.key, TLS.ca).server_context()


def test_waits_double_up_to_the_bound_and_differ_between_nodes():
    one, other = (Backoff(0.2, 30.0, Random(seed)) for seed in (1, 2))
    waits = [one.next() for _ in range(40)]
    for turn, wait in enumerate(waits):
        bound = min(30.0, 0.2 * 2**turn)
        assert bound / 2 <= wait <= bound
    assert waits != [other.next() for _ in range(40)]
    one.reset()
    assert one.next() <= 0.2
