"""The layer: batches, trees, departures, repair, downloads, and the sizer's arithmetic and slots."""

from random import Random

import pytest

from protocols.supernodes.world import World, check, check_settled, quick
from recado.protocols.supernodes import SettingsError, SuperNodeSettings, membership
from recado.protocols.supernodes import messages as m
from recado.protocols.supernodes.members import Change, Member
from recado.protocols.supernodes.sizer import update
from recado.protocols.supernodes.state import Sizer
from recado.sim.draws import uniform
from recado.sim.faults import Cuts
from recado.sim.network import Mesh


def layer_of(count, settings=None, seed=0, **options):
    world = World(settings or quick(families=False), seed, **options)
    world.come(0, "f == 0")
    world.run(2)
    for node in range(1, count):
        world.come(node, f"f == {node}")
        world.run(0.5)
    world.run(20)
    return world


def test_joins_are_spread_in_batches_by_the_leader():
    world = layer_of(12)
    casts = world.sent(m.MembershipCast)
    changes = list({id(one[3].change): one[3].change for one in casts}.values())
    assert sum(len(change.joins) for change in changes) == 11
    assert len(changes) < 11
    check_settled(world)


def test_a_full_batch_does_not_wait():
    world = World(quick(families=False, join_batch=3, join_batch_seconds=1000.0))
    world.come(0, "f == 0")
    world.run(1)
    for node in (1, 2, 3):
        world.come(node, f"f == {node}")
    world.run(10)
    assert all(world.state(node).layer.active for node in range(4))


def test_a_broadcast_sends_one_message_to_each_member():
    world = layer_of(30)
    before = len(world.sent(m.MembershipCast))
    world.come(99, "f == 99")
    world.run(10)
    casts = world.sent(m.MembershipCast)[before:]
    receivers = [receiver for _, _, receiver, _ in casts]
    assert len(receivers) == len(set(receivers)) == 30  # the leader has it, the newcomer gets it
    fan = max(sum(1 for _, sender, _, _ in casts if sender == node) for node in world.live())
    assert 2 <= fan <= 6


@pytest.mark.parametrize("leaves", ["detector", "leader"])
@pytest.mark.parametrize("slices", [1, 4])
def test_departures_are_found_and_spread(leaves, slices):
    world = layer_of(20, quick(families=False, leaves=leaves, slices=slices))
    for node in (3, 7, 11):
        world.go(node)
    leader = min(world.states(), key=lambda one: one.layer.key).me
    world.go(leader)
    world.run(150)
    check_settled(world)
    assert not any(one.layer.suspects for one in world.states())


def test_a_live_member_that_was_taken_for_gone_enters_again():
    world = layer_of(6)
    one = world.state(3)
    old = one.layer.key
    other = world.state(0)
    other.layer.pending_leaves[old] = None
    world.fire(0, "leave")
    world.run(60)
    assert one.layer.key != old
    check_settled(world)


def test_one_whose_departure_is_told_before_its_entry_enters_again():
    """Otherwise it takes itself for a member that nobody else knows, for ever: views are equal."""
    world = layer_of(6)
    world.come(9, "f == 9")
    while not (layer := world.state(9).layer) or not layer.endpoints_loaded:
        world.run(0.1)
    key = layer.key
    out = []
    member = Member(key, 9, "f == 9")
    membership.learn(world.state(9), layer, Change((77, 1), (), (key,), frozenset()), out)
    membership.learn(world.state(9), layer, Change((78, 1), (member,), (), frozenset({key})), out)
    assert not layer.announced
    assert layer.key != key
    world.run(120)
    check_settled(world)


def test_views_that_differ_are_repaired_both_ways():
    world = layer_of(8)
    states = [world.state(node) for node in (2, 5)]
    for number, state in enumerate(states):  # two events that only their origin has seen
        state.layer.pending_leaves[1000 + number] = None
        before = len(world.sends)
        world.fire(state.me, "leave")
        world.run(0)
        assert len(world.sends) > before
        for one in states[:number] + states[number + 1 :]:
            world.simulation.lose(state.me, one.me)
    world.run(60)
    assert len({id(one.layer.membership) for one in world.states()}) == 1


def test_equal_views_need_no_answer():
    world = layer_of(6)
    begun = world.simulation.now
    world.run(30)
    assert world.sent(m.ViewRepair, begun)
    assert not world.sent(m.ViewRepairReply, begun)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 80))])
def test_after_a_partition_the_parts_find_each_other(seed):
    """Families too: a father that was out of reach comes back beside his successor, and both stay (R25)."""
    rng = Random(seed)
    cuts = Cuts(Mesh(uniform(0.02, 0.3, rng)))
    world = World(quick(reunite_share=0.3), seed, network=cuts)
    world.come(0, "v < 9")
    world.run(5)
    for node in range(1, 24):
        world.come(node, f"v < {1 + node % 6}")
        world.run(4)
    world.run(60)
    apart = rng.sample(world.live(), 9)
    cuts.split(apart)
    world.run(rng.uniform(30, 400))
    cuts.join()
    world.run(300)
    check(world)
    check_settled(world)
    event = world.publish(rng.choice(world.live()), "e", v=3)
    world.run(60)
    assert world.who_got("e") == world.who_wants(event)


@pytest.mark.parametrize("seed", range(6))
def test_two_that_took_each_other_for_gone_find_each_other(seed):
    """When they meet, each learns that it is gone as well, and nobody is left in the layer to announce them."""
    cuts = Cuts(Mesh(uniform(0.02, 0.3, Random(seed))))
    world = World(quick(reunite_share=0.3), seed, network=cuts)
    world.come(0, "v < 1")
    world.run(5)
    world.come(1, "v < 2", seeds=(0,))
    world.run(60)
    cuts.split([1])
    world.run(120)
    assert [len(world.state(node).layer.membership) for node in (0, 1)] == [1, 1]
    cuts.join()
    world.run(400)
    check_settled(world)
    world.publish(0, "e", v=0)
    world.run(10)
    assert world.who_got("e") == [0, 1]


def test_downloads_are_served_by_those_that_have_given_little():
    world = layer_of(10, quick(families=False, serving="ratio"))
    giver = max(world.states(), key=lambda one: one.layer.up - one.layer.down)
    giver.layer.up, giver.layer.down = 1_000_000, 1
    refused = 0
    for number in range(20):
        world.come(100 + number, "true", seeds=(giver.me,))
        world.run(5)
        refused = len(world.sent(m.TryAnother))
    assert refused >= 10
    world.run(60)
    check_settled(world)


def test_an_unknown_settings_value_is_refused():
    for wrong in ({"k": 0}, {"min_fanout": 1}, {"repair_seconds": 100.0}, {"leaves": "nobody"}, {"endpoint_bytes": -1}):
        with pytest.raises(SettingsError):
            SuperNodeSettings(**wrong)


# -- the sizer


def test_the_arithmetic_of_the_sizer():
    settings = SuperNodeSettings(budget_bytes_per_second=120.0)
    sizer = Sizer(1000)
    sizer.entries = 180
    update(sizer, 1000 + 114_000, settings)  # 380 B/s over 300 s, 180 entries: 633 B an entry
    assert sizer.cap == pytest.approx(36_000 / (114_000 / 180))
    assert sizer.rate == pytest.approx(sizer.cap / 300 / 2)
    assert (sizer.entries, sizer.upload, sizer.ready) == (0, 115_000, 0)
    first = sizer.rate
    sizer.ready = 7
    update(sizer, 115_000 + 100, settings)  # no entries: no slots, the rate goes down by half, the rest is discarded
    assert (sizer.cap, sizer.rate, sizer.ready) == (0.0, first / 2, 0)


def test_a_limit_leaves_what_is_not_used_and_slices_share_it():
    limit = SuperNodeSettings(budget_bytes_per_second=500.0, budget_mode="limit", slices=4)
    sizer = Sizer(0)
    sizer.entries = 180
    update(sizer, 114_000, limit)
    assert sizer.cap == pytest.approx((150_000 - 114_000) / (114_000 / 180) / 4)
    sizer.entries = 180
    update(sizer, 114_000 + 200_000, limit)  # above the limit
    assert sizer.cap == 0.0


@pytest.mark.parametrize("mode", ["increment", "limit"])
def test_slots_never_cost_more_than_the_budget(mode):
    """A slot costs what an entry has cost; all leaders together, and whatever the rate was before."""
    rng = Random(mode)
    for _ in range(500):
        slices, budget = rng.choice((1, 4)), rng.uniform(0, 500)
        settings = SuperNodeSettings(budget_bytes_per_second=budget, budget_mode=mode, slices=slices)
        sizer, upload = Sizer(0), 0
        for _ in range(5):
            used, sizer.entries = rng.randrange(200_000), rng.randrange(100)
            entries, upload = sizer.entries, upload + used
            update(sizer, upload, settings)
            assert sizer.cap >= 0
            if sizer.cap:
                spent = sizer.cap * slices * used / entries + (used if mode == "limit" else 0)
                assert spent <= budget * settings.sizer_seconds * (1 + 1e-9)


def test_a_leader_makes_no_more_slots_than_it_has_worked_out():
    world = layer_of(6, quick(budget_bytes_per_second=1.0))
    state = min(world.states(), key=lambda one: one.layer.key)
    state.layer.sizer.rate, state.layer.sizer.cap = 1.0, 3.5
    state.layer.pending_joins.clear()
    for _ in range(10):
        world.fire(state.me, "slot")
        check(world)
        if state.layer.sizer.generated == 3:
            break
    world.run(60)
    assert state.layer.sizer.generated == 3


def test_slots_are_split_equally_the_first_get_one_more():
    assert membership.split_slots(0, 4) == [0, 0, 0, 0]
    assert membership.split_slots(3, 4) == [1, 1, 1, 0]
    assert membership.split_slots(4, 4) == [1, 1, 1, 1]
    assert membership.split_slots(11, 4) == [3, 3, 3, 2]


def test_slots_promote_children_and_the_surplus_is_lost():
    world = World(quick(budget_bytes_per_second=1.0))
    world.come(0, "f == 0")
    world.run(5)
    for number in range(1, 31):
        world.come(number, f"f == {number % 5}")
        world.run(3)
    world.run(60)
    supers = [one for one in world.states() if one.role == "super"]
    leader = min(supers, key=lambda one: one.layer.key)
    assert leader.layer.sizer is not None
    fathers = [one for one in supers if one.layer.children]
    leader.layer.sizer.ready = 1000
    begun = world.simulation.now
    world.come(99, "f == 99")
    world.run(10)
    promoted = world.sent(m.PromoteChild, begun)
    assert {sender for _, sender, _, _ in promoted} == {one.me for one in fathers}
    assert len(promoted) == len(fathers)  # one each, the others are dropped at the leaves
    world.run(60)
    for _, father, child, _ in promoted:
        assert world.role(child) == "super"
        assert child not in world.children(father)
        assert "super" in world.roles_of(child)
    check_settled(world)


def test_so_many_children_are_promoted_as_there_are_slots():
    world = World(quick(budget_bytes_per_second=1.0, sizer_seconds=10_000.0))
    world.come(0, "f == 0")
    world.run(5)
    for number in range(1, 40):
        world.come(number, f"f == {number % 20}")
        world.run(3)
    world.run(60)
    supers = [one for one in world.states() if one.role == "super"]
    assert all(one.layer.children for one in supers)
    leader = min(supers, key=lambda one: one.layer.key)
    leader.layer.sizer.ready = 3
    begun = world.simulation.now
    world.come(99, "f == 99")
    world.run(10)
    assert len(world.sent(m.PromoteChild, begun)) == 3


def test_a_full_batch_of_departures_does_not_wait():
    world = layer_of(20, quick(families=False, leave_batch=2, leave_batch_seconds=0.0))
    state = next(one for one in world.states() if one.me != min(world.states(), key=lambda one: one.layer.key).me)
    gone = [one for one in world.live() if one != state.me][:2]
    keys = [world.state(one).layer.key for one in gone]
    for one in gone:
        world.go(one)
    out = []
    for key in keys:
        assert not out
        membership.note_departure(state, state.layer, key, out)
    assert {tuple(sorted(one.message.change.leaves)) for one in out} == {tuple(sorted(keys))}


def test_no_slots_ride_on_broadcasts_without_a_budget():
    world = layer_of(10)
    assert all(one[3].slots == 0 for one in world.sent(m.MembershipCast))
    assert all(one.layer.sizer is None for one in world.states())
