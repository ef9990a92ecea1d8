"""Five hundred live peers on one machine, from the topology file of the examples."""

from collections import Counter
from pathlib import Path

import pytest

from overlay.test_faults import wait_until
from recado.overlay.client import OverlayClient
from recado.overlay.launch import new_launch, read_plan, start, stop

PLAN = Path(__file__).parents[2] / "examples" / "five_hundred_peers.toml"


def test_the_example_describes_five_hundred_peers_and_a_hundred_filters():
    plan = read_plan(PLAN)
    launch = new_launch(plan, PLAN.parent)
    assert len(launch.nodes) == 500
    assert Counter(node.subscribes for node in launch.nodes.values()) == {(f"v < {n}",): 5 for n in range(1, 101)}


@pytest.mark.long
def test_five_hundred_peers_get_what_they_want():
    launch = new_launch(read_plan(PLAN), PLAN.parent)
    try:
        start(launch, processes=10, timeout_seconds=120)
        with OverlayClient(map(launch.socket, launch.nodes)) as client:
            shown = client.ask_all("show")
            roles = Counter(node["machine"]["role"] for node in shown.values())
            assert roles["super"] + roles["sub"] == 500
            assert 100 <= roles["super"] < 150  # a few filters may have two, when their first peers came together
            for number, value in enumerate((3, 50, 99)):
                id = f"e{number}"
                client.ask(f"n{17 + 100 * number}", "publish", event={"id": id, "v": value})
                wanted = {f"n{place}" for place in range(500) if value < place % 100 + 1}
                wait_until(lambda id=id, wanted=wanted: heard(client, id) == dict.fromkeys(wanted, 1))
    finally:
        stop(launch)


def heard(client, id):
    """How often every node got the event, where it did."""
    told = client.ask_all("deliveries")
    counts = {name: sum(delivery["event"] == id for delivery in them) for name, them in told.items()}
    return {name: count for name, count in counts.items() if count}
