"""Planted bugs: each must be found by the scripted runs or by the first random worlds.

What runs is the real protocol with one error in it. Without an error the same runs pass, in their own modules.
"""

import pytest

from planted import is_found, mutate, scripts
from protocols.supernodes import (
    test_enquiry,
    test_events,
    test_family,
    test_guard,
    test_layer,
    test_load,
    test_order,
    test_worlds,
)
from recado.protocols.supernodes import (
    dissemination,
    enquiry,
    family,
    load,
    members,
    membership,
    node,
    order,
    recovery,
    repair,
    sizer,
)

WORLDS = 12

FAMILY = {
    "any member represents any filter": (
        family.on_filter_check,
        "layer.membership.by_filter(message.filter)",
        "layer.membership.members",
    ),
    "a node that is still loading answers": (family.on_filter_check, "layer.filters_loaded", "True"),
    "a joiner with a known filter enters the layer all the same": (
        family.on_filter_reply,
        "if message.endpoint is None or",
        "if True or",
    ),
    "any filter is accepted below any other": (family.on_join_node, "message.name != state.name or", "False or"),
    "a K node takes children": (family.on_join_node, "elif state.child is not None:", "elif False:"),
    "a new child is not announced to its brothers": (
        family.on_join_node,
        'if settings.brothers == "chain":',
        "if False:",
    ),
    "K nodes are not counted": (family.count_super_nodes, "return len(known) + len(layer.pending_k)", "return 1"),
    "one that was told to become a K node stays out of the layer": (
        family.on_accept,
        'membership.enter(state, "k", out)',
        "pass",
    ),
    "joiners that know only each other ask nobody else": (
        family._ask_for_representative,
        "if not state.seeds or joining.vain > 1:",
        "if not state.seeds:",
    ),
    "a redirect is not followed": (
        family.on_parent_node,
        "ask_to_join(state, joining, message.father, out)",
        "_restart(state, joining, out)",
    ),
    "a redirect has no end": (
        family.on_parent_node,
        "joining.redirects > state.settings.redirects",
        "False",
    ),
    "the keep-alive ends at the first child": (
        family.on_promotion,
        "if place + 1 < len(children):",
        "if False:",
    ),
    "the keep-alive is silent after the first round": (
        family.keep_alive,
        'out.append(SetTimer("keepalive", state.settings.keepalive_seconds))',
        "pass",
    ),
    "nobody tells the father who lives": (family._close_round, "if message.father != state.me:", "if False:"),
    "a dead child ends the round": (
        family.promotion_failed,
        "_pass_on(",
        "len(rest) < 0 and _pass_on(",
    ),
    "dead children stay in the list": (family.on_live_nodes, "del home.children[child]", "pass"),
    "a child that came during a round is dropped by it": (family.on_live_nodes, "since < message.round and", ""),
    "watchdogs are not staggered": (family._arm, "child.place * settings.eta_step_seconds", "0.0"),
    "a new child has no extra period": (
        family._become_child,
        "_arm(state, state.child, state.settings.keepalive_seconds, out)",
        "_arm(state, state.child, -state.settings.watchdog_grace_seconds - 20.0, out)",
    ),
    "a keep-alive does not re-arm the watchdog": (family.on_promotion, "_arm(state, child, 0.0, out)", "pass"),
    "a successor does not warn its brothers": (family.promote, "for brother in brothers:", "for brother in ():"),
    "a successor does not inherit its brothers": (family.promote, "if layer is not None and brothers:", "if False:"),
    "a brother keeps the old father": (
        family.on_promoted,
        "child.father, child.round = sender, 0",
        "pass",
    ),
    "a promoted child stays out of the layer": (
        family.promote,
        'membership.enter(state, "promoted", out)',
        'set_role(state, "promoted", out)',
    ),
}
LAYER = {
    "a full batch waits all the same": (membership.on_join_request, "join_batch", "max_pending"),
    "the end of an interval is left out": (
        membership.spread,
        "for member in members[first:last]:",
        "for member in members[first : last - 1]:",
    ),
    "intervals of a broadcast overlap": (
        membership.spread,
        "part_high = side_high if part == parts else keys[stop]",
        "part_high = side_high",
    ),
    "departures are never spread": (membership.spread_leaves, "if layer.pending_leaves:", "if False:"),
    "a full batch of departures waits": (
        membership._batch_leaves,
        "_spread_new(state, layer, (), frozenset(), out)",
        "pass",
    ),
    "who is gone is forgotten at once": (membership._remember_departed, "departed[key] = member.endpoint", "pass"),
    "nobody enters again where nobody is left": (
        membership._enter_again,
        "if random_member(state, layer) is not None:",
        "if True:",
    ),
    "one whose departure came first takes itself for a member": (
        membership.learn,
        "and membership.find(key) is None:",
        "and False:",
    ),
    "one who is alive accepts to be gone": (membership.learn, "_enter_again(state, layer, out)", "pass"),
    "repair gives nothing": (membership.on_view_repair_reply, "learn(state, layer, change, out)", "pass"),
    "a view covers every other": (members.View.covers, "if self is other:", "if True:"),
    "slots do not get fewer": (membership.spread, "slots -= 1", "pass"),
    "a leader makes slots without end": (sizer._next_slot, "sizer.generated + 1 <= sizer.cap", "True"),
    "all slots go to the first": (
        membership.split_slots,
        "slots // fanout + (part < slots % fanout)",
        "slots * (part == 0)",
    ),
    "a slot promotes nobody": (sizer.promote_one, "if layer.children:", "if False:"),
}
EVENTS = {
    "the filter is not asked in the tree": (dissemination._scan, "and accepts(member.filter)", ""),
    "the first of an interval is left out": (
        dissemination._scan,
        "range(arc.first, arc.first + arc.places)",
        "range(arc.first + 1, arc.first + arc.places)",
    ),
    "a member does not pass the event on": (
        dissemination.on_turmoil_cast,
        "_cut(state, layer, published, Arc(first, count, message.high), out)",
        "pass",
    ),
    "a stale member takes an interval": (
        dissemination.on_turmoil_cast,
        "not layer.membership.view.covers(message.view)",
        "False",
    ),
    "a rejected interval is forgotten": (
        dissemination.on_turmoil_reject,
        "_go_on(state, message.id, message.low, message.high, out)",
        "pass",
    ),
    "children get nothing": (
        dissemination.on_turmoil_cast,
        "pass_down(state, layer, published, None, out)",
        "pass",
    ),
    "the chain ends at its first child": (
        dissemination.on_turmoil_subnode,
        "hand_on(state, published, message.rest, out)",
        "pass",
    ),
    "a dead child ends the chain": (
        dissemination.turmoil_subnode_failed,
        "hand_on(state, Publication(message.id, message.event), message.rest, out)",
        "pass",
    ),
    "an event is delivered whenever it comes": (dissemination.consume, "if event_id in events.seen:", "if False:"),
    "what a repair brought is never published": (
        dissemination._publish_for,
        "if new or _was_recovered",
        "if new or 0 and _was_recovered",
    ),
    "what is sent up gets lost with the father": (
        dissemination.publish_up_failed,
        "state.outbox.append(Publication(message.id, message.event))",
        "pass",
    ),
    "repaired events are not passed down": (
        repair.on_repair_reply,
        "pass_down(state, layer, published, None, out)",
        "pass",
    ),
    "nobody repairs": (repair._ask_partner, "if partner is not None and", "if False and"),
    "histories grow": (repair.recent, "[-state.settings.history :]", ""),
}
ENQUIRY = {
    "a father names nobody to a newcomer": (
        enquiry.choose_contacts,
        "return tuple(state.rng.sample(others, k=min(count, len(others))))",
        "return ()",
    ),
    "who is asked does not tell the others": (enquiry.on_brothers_wanted, "if message.introduce:", "if False:"),
    "who is asked forgets the newcomer itself": (enquiry.on_brothers_wanted, "add(state, child, sender)", "pass"),
    "the other contacts are not asked": (
        enquiry.on_brothers,
        "child.introduced, child.contacts = True, child.contacts[1:]",
        "child.introduced, child.contacts = True, ()",
    ),
    "brothers that were missed are not told": (enquiry.on_brothers, "if child.introduced:", "if False:"),
    "older brothers come after the newcomer": (
        enquiry.on_brothers,
        "(*child.chain[:place], *earlier, *child.chain[place:])",
        "(*child.chain, *earlier)",
    ),
    "a newcomer gives up when its contacts are dead": (
        enquiry.note_departure,
        'out.append(Send(child.father, JoinNode(state.name), "a new child asks for other brothers"))',
        "pass",
    ),
    "a departure is not told to the father": (
        enquiry.note_departure,
        "(child.father, *child.brothers(state.me))",
        "child.brothers(state.me)",
    ),
    "a departure is not told to the brothers": (
        enquiry.note_departure,
        "(child.father, *child.brothers(state.me))",
        "(child.father,)",
    ),
    "a father keeps a departure to himself": (
        enquiry.note_departure,
        "for one in home.children:",
        "for one in ():",
    ),
    "the chain without a list ends at its first child": (
        family.on_keep_alive,
        "_continue_chain(state, child, out)",
        "pass",
    ),
    "the chain without a list ends at a dead child": (
        family.keep_alive_failed,
        "_continue_chain(state, child, out)",
        "pass",
    ),
    "the round of an old father counts for the new one": (
        family.on_promoted,
        "child.father, child.round = sender, 0",
        "child.father = sender",
    ),
    "the chain ends at one that has left the family": (family.on_brother_gone, "if was_next:", "if False:"),
}
ORDER = {
    "an event is delivered before those that it waits for": (order.release, "earlier > flow.last", "False"),
    "what is lost is not reported": (order.give_up, "out.append(Report(", "list.append([], Report("),
    "nobody asks for what is missing": (recovery.ask_for_missing, "if whom is not None:", "if False:"),
    "what comes before is the number before": (order.previous, "if answers(event)(text):", "if True:"),
    "a stranger is told what this node's own filter accepts": (
        recovery._filter_of,
        "None if member is None else member.filter",
        "state.filter",
    ),
    "a new father does not learn what came before": (order.recent_of, "if one < event_id[1]", "if False"),
}
LOAD = {
    "who has sent as much as it may goes on": (load.is_over, "return 0 < most <", "return 0 < most < 0 <"),
    "a child keeps what it could not deliver to itself": (load.give_back, "if state.child is not None:", "if False:"),
    "a father sends everything himself": (load.delegate, "if len(casts) < LEAST:", "if True:"),
    "a child sends for anybody": (load.on_relay, "child.father == sender", "True"),
}
GUARD = {
    "a keep-alive that is swallowed is lost": (family.round_is_open, "home.closed >= home.round", "True"),
    "every keep-alive is taken for swallowed": (family.on_live_nodes, "home.closed = max(", "_ = max("),
}
SCRIPTS = {
    id(GUARD): test_guard,
    id(ENQUIRY): test_enquiry,
    id(FAMILY): test_family,
    id(LAYER): test_layer,
    id(EVENTS): test_events,
    id(ORDER): test_order,
    id(LOAD): test_load,
}


def runs(first):
    """Scripts come first, those of the own module before the others: a world takes as long as a hundred of them."""
    yield from scripts(first)
    for module in SCRIPTS.values():
        if module is not first:
            yield from scripts(module)
    yield from ((test_worlds.test_a_father_has_exactly_one_normal_successor, (seed,)) for seed in range(2))
    yield from ((test_worlds.test_invariants, (seed,)) for seed in range(WORLDS))


def plant(monkeypatch, function, old, new):
    """Put the error in, also into the tables of the machine."""
    wrong = mutate(monkeypatch, function, old, new)
    for table in (node.HANDLERS, node.FAILURES, node.TIMERS):
        for key in [key for key, handler in table.items() if handler is function]:
            monkeypatch.setitem(table, key, wrong)


def test_the_tool_changes_nothing_else(monkeypatch):
    plant(monkeypatch, family.on_promotion, "children = message.children", "children = message.children")
    for run, values in scripts(test_family):
        run(*values)


ALL = {
    name: (group, *error)
    for group in (FAMILY, LAYER, EVENTS, ENQUIRY, ORDER, LOAD, GUARD)
    for name, error in group.items()
}


def test_there_are_enough_of_them():
    assert len(ALL) >= 25


@pytest.mark.parametrize("name", ALL)
def test_an_error_is_found(monkeypatch, name):
    group, *error = ALL[name]
    plant(monkeypatch, *error)
    assert is_found(runs(SCRIPTS[id(group)])), f"{name}: nothing noticed it"
