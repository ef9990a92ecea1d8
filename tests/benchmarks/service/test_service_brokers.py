"""The loads against real brokers, as small as can be: that each of them measures what it says."""

import msgspec
import pytest

from benchmarks.service.brokers import RECADO, SETTINGS, broker, missing
from benchmarks.service.handover import handover
from benchmarks.service.loads import away, filtered, publishing, restart
from benchmarks.service.workload import quick_plan

PLAN = msgspec.structs.replace(
    quick_plan(), publish_seconds=0.3, connections=10, interests=500, filtered_seconds=0.3, moves=3, move_seconds=0.05
)
INSTALLED = [setting for setting in (SETTINGS[0], SETTINGS[2], SETTINGS[4]) if not missing(setting)]


@pytest.fixture(scope="module", params=INSTALLED, ids=lambda setting: setting.system)
def running(request, tmp_path_factory):
    with broker(request.param, tmp_path_factory.mktemp("broker")) as found:
        yield found


def test_loads(running):
    published = publishing(running, 2, PLAN)
    assert published.acks > 0
    assert 0 < published.p50_ms <= published.p99_ms
    delivered = filtered(running, PLAN)
    assert delivered.useful == delivered.expected > 0
    assert delivered.bytes > 200 * delivered.useful
    gone = away(running, 50, PLAN)
    assert (gone.published, gone.received, gone.duplicated, gone.out_of_order) == (50, 50, 0, 0)


def test_hand_over(running):
    if running.setting != RECADO:
        return  # addresses are changed for ours alone
    moved = handover(running, "WebSocket", PLAN)
    assert (moved.lost, moved.duplicated, moved.out_of_order) == (0, 0, 0)
    assert moved.gap_max_ms > 0


@pytest.mark.long
@pytest.mark.parametrize("stored", [200, 100_000])
def test_restart(tmp_path, stored):
    again = restart(tmp_path, stored)
    assert again.lost == 0
    assert 0 < again.accepting_seconds <= again.delivering_seconds
