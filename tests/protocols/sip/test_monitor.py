"""Has the device moved?"""

from recado.protocols.sip.registration import AddressMonitor, LinkBack, LinkLost, Moved


def test_what_follows_from_what_is_seen():
    monitor = AddressMonitor("10.0.0.1")
    seen = ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2", None, None, "10.0.0.2", None, "10.0.0.3", "10.0.0.1"]
    assert [monitor.observe(host) for host in seen] == [
        None, None, Moved("10.0.0.2", "10.0.0.1"), None, LinkLost(), None, LinkBack("10.0.0.2"), LinkLost(),
        Moved("10.0.0.3", "10.0.0.2"), Moved("10.0.0.1", "10.0.0.3"),
    ]  # fmt: skip
