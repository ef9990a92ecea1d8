"""The client without a loop, against a service in a thread."""

import threading

import pytest

import recado
from client.service import Background
from recado.client import Unreachable


def test_publish_subscribe_and_the_rest(tmp_path):
    with Background(tmp_path) as service, recado.connect_sync(service.url, user="ana") as c:
        cheap = c.subscribe("Price < 25", type="Tick", id="cheap")
        assert c.publish("Tick", {"Price": 24}) == 0
        assert c.publish_all([{"type": "Tick", "Price": price} for price in range(20, 30)]) == list(range(1, 11))
        got = []
        for one in cheap:
            got.append(one["Price"])
            if len(got) == 6:
                break
        assert got == [24, 20, 21, 22, 23, 24]
        assert c.state == "CONNECTED"
        assert c.delivered + c.pending == 6
        assert (c.dropped, cheap.pending) == (0, 0)
        assert [position for position, _ in c.replay("Price > 27")] == [9, 10]
        assert [one["id"] for one in c.subscriptions()] == ["cheap"]
        assert c.renew("cheap", ttl=5) > ""
        cheap.cancel()
        assert c.subscriptions() == []
        passing = c.subscribe("Price < 0")
        c.cancel(passing.id)
        assert list(passing) == []
        assert c.delivered + c.pending == 6


def test_no_service_leaves_no_thread():
    before = threading.active_count()
    with pytest.raises(Unreachable), recado.connect_sync("recado://127.0.0.1:9", timeout=0):
        pass
    assert threading.active_count() == before


def test_what_recado_offers():
    assert recado.connect.__name__ == "connect"
    with pytest.raises(AttributeError, match="nothing"):
        recado.nothing  # noqa: B018


def test_a_loop_goes_on_where_another_one_stopped_and_the_end_acknowledges(tmp_path):
    with Background(tmp_path) as service:
        with recado.connect_sync(service.url, user="ana") as c:
            every = c.subscribe(id="all")
            c.publish_all([{"n": n} for n in range(10)])
            for one in every:
                if one["n"] == 3:
                    break
            for one in every:
                if one["n"] == 6:
                    break
        with recado.connect_sync(service.url, user="ana") as c:
            assert next(c.subscribe(id="all"))["n"] == 7
