"""The accounted size of every message, byte by byte: 2.2 of the document."""

import pytest

from recado.model.event import Event
from recado.protocols.supernodes import SuperNodeSettings, cause_of, sizer_of
from recado.protocols.supernodes import messages as m
from recado.protocols.supernodes.members import Change, Home, Member, View
from recado.protocols.supernodes.messages import CAUSES, MESSAGES, payload_sizes

EVENT = Event("e")
SEEN = View({1: 4, 2: 9, 3: 1}, frozenset({(2, 11)}), 0, frozenset({1, 2}))
MEMBERS = tuple(Member(key, f"n{key}", f"f == {key % 2}") for key in range(5))
JOINS = Change((1, 1), MEMBERS[:3], (7, 8), frozenset({0, 1}))
LEAVES = Change((1, 2), (), (7, 8, 9), frozenset())

PAYLOADS = [
    (m.FilterCheck("f == 1"), 506),
    (m.FilterReply("name"), 0),
    (m.FilterReply("name", "a"), 6),
    (m.TryAnother(("a", "b")), 12),
    (m.JoinNode("name"), 0),
    (m.JoinNode("name", "f == 1"), 506),
    (m.SuperNodeAccept("name", ("a", "b", "c")), 0),
    (m.KNodeAccept("name", ("a",)), 0),
    (m.SuperNodeAccept("name", ("a", "b", "c"), ("d", "e")), 12),
    (m.KNodeAccept("name", ("a",), ("d",)), 6),
    (m.KeepAlive("a", 3, ("x", "y")), 0),
    (m.BrothersWanted("a", True), 0),
    (m.Brothers("a", ("b", "c", "d")), 18),
    (m.NewBrother("a"), 0),
    (m.NewBrother("a", "b"), 6),
    (m.BrotherGone("a"), 0),
    (m.BrotherGone("a", "b"), 6),
    (m.ParentNode("a", "name"), 22),
    (m.Promotion("a", "name", 3, ("b", "c", "d"), ("x", "y")), 18),
    (m.Promotion("a", "name", 3, ("b", "c", "d"), ("x", "y"), "z"), 24),
    (m.Below("a", "name"), 22),
    (m.LiveNodes(3, ("b", "c")), 12),
    (m.Promoted("name"), 0),
    (m.TakeOver("name", ("a", "b")), 12),
    (m.TakeOver("name", ("a", "b"), Home().found(MEMBERS)), 12 + 30),
    (m.Took("name"), 0),
    (m.PromoteChild(), 4),
    (m.NotYourChild(), 0),
    (m.EndpointsRequest(), 0),
    (m.Endpoints(Home().found(MEMBERS)), 30),
    (m.FiltersRequest(1), 4),
    (m.Filters(1, 2, 3), 2 * 506 + 3 * 16),
    (m.JoinRequest(MEMBERS[0], "full"), 512),
    (m.JoinRequest(MEMBERS[0], "hash"), 22),
    (m.Departures((1, 2)), 12),
    (m.MembershipCast(JOINS, 1, 0, 5), 10 + 2 * 512 + 22 + 2 * 6 + 16),
    (m.MembershipCast(JOINS, 1, 0, 5, 3), 10 + 2 * 512 + 22 + 2 * 6 + 16 + 4),
    (m.MembershipCast(LEAVES, 1, 0, 5), 10 + 18 + 16),
    (m.ViewRepair(SEEN, 1), 30),
    (m.ViewRepairReply((LEAVES, LEAVES), None), 56),
    (m.ViewRepairReply((LEAVES,), SEEN), 28 + 30),
    (m.TurmoilCast((1, 1), EVENT, 0, 5, SEEN, 3), 16 + 10 + 16 + 30),
    (m.TurmoilCast((1, 1), EVENT, 0, 5, SEEN, 3, (("name", 1), ("other", 0)), "a"), 16 + 10 + 16 + 30 + 2 * 6 + 6),
    (m.TurmoilReject((1, 1), 0, 5), 26),
    (m.TurmoilSubnode((1, 1), EVENT, ("a", "b", "c")), 16 + 18),
    (m.TurmoilSubnode((1, 1), EVENT, ("a",), 0), 16 + 6 + 4),
    (m.PublishUp((1, 1), EVENT), 16),
    (m.PublishUp((1, 3), EVENT, ((1, EVENT), (2, EVENT))), 48),
    (m.Relay((("a", m.MembershipCast(LEAVES, 1, 0, 5)), ("b", m.MembershipCast(LEAVES, 2, 5, 9)))), 44 + 12 + 16),
    (m.Returned("a", m.MembershipCast(LEAVES, 1, 0, 5)), 22),
    (m.Demote(1, 2), 6),
    (m.Fetch(1, 3, 5, -1), 14),
    (m.Fetched(1, 3, 5, (4, 5), ((4, EVENT),)), 10 + 8 + 16),
    (m.Fetched(1, 3, 5, None, ()), 10),
    (m.Fetched(1, 3, 5, None, (), "a"), 16),
    (m.RepairTurmoil(((1, 1), (1, 2), (2, 1)), 1), 30),
    (m.TurmoilRepairReply(((1, 1),), (((1, 2), EVENT), ((1, 3), EVENT)), 1), 10 + 32),
    (m.TurmoilRepairReply(None, (((1, 2), EVENT),), 1), 16),
]


@pytest.mark.parametrize(("message", "size"), PAYLOADS, ids=lambda one: type(one).__name__)
def test_payload_and_header(message, size):
    settings = SuperNodeSettings()
    assert payload_sizes(settings)[type(message)](message) == size
    assert sizer_of(settings)(message) == size + 28
    assert sizer_of(SuperNodeSettings(header_bytes=40, type_bytes=1))(message) == size + 41


def test_every_message_has_a_size_and_a_cause():
    kinds = set(MESSAGES.__args__)
    assert set(payload_sizes(SuperNodeSettings())) == kinds
    assert set(CAUSES) == kinds - {m.MembershipCast}
    assert {type(message) for message, _ in PAYLOADS} == kinds
    assert cause_of(m.MembershipCast(JOINS, 1, 0, 5)) == "joins"
    assert cause_of(m.MembershipCast(LEAVES, 1, 0, 5)) == "leaves"
    assert cause_of(m.Filters(1, 2, 3)) == "filters"


def test_filters_with_the_endpoints_are_accounted_once_each():
    sizes = payload_sizes(SuperNodeSettings(filter_pieces=0))
    assert sizes[m.Endpoints](m.Endpoints(Home().found(MEMBERS))) == 30 + 2 * 506 + 3 * 16


def test_sizes_are_settings():
    sizes = payload_sizes(SuperNodeSettings(endpoint_bytes=16, filter_bytes=100, event_bytes=1000))
    assert sizes[m.Promotion](m.Promotion("a", "name", 1, ("b", "c"))) == 32
    assert sizes[m.FilterCheck](m.FilterCheck("f == 1")) == 100
    assert sizes[m.TurmoilSubnode](m.TurmoilSubnode((1, 1), EVENT, ("a",))) == 1016
