"""Planted bugs: each of them must be found by the checks of the random lives, within the seeds of the default run.

What runs is the real protocol with one error in it. The machine without errors passes the same seeds in
``test_properties`` and ``test_faults``.
"""

import pytest

from planted import mutate
from protocols.trees.test_chosen_lives import CHOSEN_SEEDS, chosen_life
from protocols.trees.test_faults import BRIDGED_SEEDS, TROUBLED_SEEDS, bridge, lost_graft, troubled_life
from protocols.trees.test_properties import CROWDED_SEEDS, RACING_SEEDS, SEEDS, crowd, life, race
from recado.errors import RecadoError
from recado.protocols.trees import attract, elect, notify, publisher, repair, subscribe
from recado.protocols.trees import node as node_module
from recado.protocols.trees import state as rows
from recado.protocols.trees.node import HANDLERS

STEADY = {
    "a no is not said": (subscribe.finish, "if not question.told and", "if False and"),
    "a yes is passed on every time": (subscribe.attach, "question.told = True", "pass"),
    "a no that was heard counts as an answer given": (
        subscribe.on_no,
        "if question is not None:",
        "if question is not None:\n        question.told = True",
    ),
    "a crossing question is no answer": (subscribe._cross, "_take_answer(state, question, sender, out)", "pass"),
    "a publisher keeps the question to itself": (subscribe._join, "if neighbour != sender:", "if not publishes:"),
    "the asker is asked back": (subscribe._join, "pending.discard(sender)", "pass"),
    "a new origin overwrites the others": (
        subscribe.attach,
        "row.origin[origin] = None",
        "row.origin = {origin: None}",
    ),
    "a late yes gets no answer": (
        subscribe.on_yes,
        "if question.life == LIVE:",
        "if question.life != LIVE: pass\n    elif True:",
    ),
    "cancelling takes the first origin only": (subscribe._pass_on, "in row.origin:", "in list(row.origin)[:1]:"),
    "cancelling passes by those who cancel": (subscribe.unsubscribe, "_pass_on(state, row, None, False, out)", "pass"),
    "a question goes on after cancelling": (subscribe.withdraw_question, "question.life = why", "pass"),
    "what was seen is not remembered": (notify.on_notification, "elif state.seen.add(", "elif bool("),
    "the filter is not asked at the end": (notify._own_matching, "if verdict or", "if True or"),
    "the filter is turned round": (notify._matching, "if verdict or", "if verdict is False or"),
    "a subscriber does not relay": (
        notify.forward,
        "for node in targets:",
        "for node in targets if not state.local else ():",
    ),
    "a leaving publisher takes all with it": (publisher._lose, "if not row.has_source and", "if"),
    "a row goes while others may still answer": (
        publisher._lose,
        "(question is None or question.epoch != row.epoch)",
        "True",
    ),
    "a new publisher is not on the trees it relays": (
        publisher._join_known_trees,
        "row.origin[state.me] = None",
        "pass",
    ),
    "a search ends at a subscriber": (publisher.on_search, "if neighbour != sender:", "if not search.found:"),
    "a graft forgets where it came from": (publisher._branch_off, "row.origin[origin] = None", "pass"),
}
SHARED = {
    "those who ride on a row are not told": (rows.drop_row, "report_row(state, rider, out)", "pass"),
    "those who are carried are forgotten": (subscribe.release, "begin(state, local, out)", "pass"),
    "a join ends after one step": (subscribe._ride, "out.append(Send(node, message", "(Send(node, message"),
    "any filter carries any other": (subscribe._is_covered, "and (text == local.filter", "and (True"),
}
RACING = {
    "a graft stops anywhere": (publisher._graft_at_row, "if row.firm or search is None or", "if True or"),
}
TROUBLED = {
    "a rebuild is forgotten": (rows.rebuild_later, '"rebuild"', '"nothing"'),
    "a search is forgotten": (repair.search_later, '"search"', '"nothing"'),
    "an old row stays": (subscribe._tidy, "drop_row(state, row, out)", "pass"),
    "a lost neighbour is waited for": (repair._mend_question, "question.pending.discard(peer)", "pass"),
    "a lost branch is not told": (repair._mend_row, "report_row(state, row, out)", "pass"),
    "damage is not passed on": (repair.on_repair, "report_row(state, row, out)", "pass"),
    "what leads nowhere is kept": (repair._mend_row, "take_down(state, row, None, True, out)", "pass"),
    "components never meet": (repair.on_hello, "if _yields(mine, theirs)", "if False"),
    "a merge is not told on": (
        repair._merge,
        "_flood(state, message, sender,",
        "_flood(State(0, state.settings), message, sender,",
    ),
    "roles are lost in a crash": (node_module._start, "if not saved:", "if True:"),
}

LOST = {"what is missing is not looked for": (subscribe._miss, '"missing"', '"nothing"')}
BRIDGED = {
    "a cut is not told on": (
        repair.on_cut,
        "_flood(state, message, sender,",
        "_flood(State(0, state.settings), message, sender,",
    ),
}


CHOSEN = {
    "a subscription without publisher waits": (rows._look_around, "call_later(state, local.type, out)", "pass"),
    "a candidate never takes office": (elect._conclude, "_take_office(state, type, out)", "pass"),
    "an appointment goes nowhere": (elect.on_appoint, "_appoint(state, heard, out)", "pass"),
    "two elected publishers stay": (elect.on_search, "elif mine is not None and mine < message.rank:", "elif False:"),
    "whoever is in the right is silent": (elect.on_search, "repair.search_later(state, type, out)", "pass"),
    "a publisher that leaves stays in the trees": (
        elect.leave,
        "publisher.leave_trees(state, event_type, out)",
        "pass",
    ),
    "an office is not given back": (elect._retire, "state.election.elected.pop(event_type, None)", "pass"),
    "a call waits for a lost neighbour": (elect.link_down, "heard.pending.discard(peer)", "pass"),
    "candidates are forgotten in a crash": (node_module._start, 'elif kind == "candidate" and', "elif False and"),
    "any number of links is asked for": (attract._make_room, "if len(opened) < state.settings.attract:", "if True:"),
    "a lost link is still counted": (attract.link_down, "attraction.opened.pop(peer, None)", "None"),
    "a member that went is still counted": (attract.link_down, "attraction.attached.pop(peer, None)", "pass"),
}


def handlers_with(monkeypatch, function, old, new):
    """The table of handlers with the error in it."""
    wrong = mutate(monkeypatch, function, old, new)
    return {kind: wrong if handler is function else handler for kind, handler in HANDLERS.items()}


def first_seed_that_finds(live, seeds, handlers):
    for seed in seeds:
        try:
            live(seed, handlers=handlers)
        except (AssertionError, RecadoError, LookupError):
            return seed
    return None


def test_the_tool_changes_nothing_else(monkeypatch):
    handlers = handlers_with(
        monkeypatch, subscribe.on_question, "interest = message.interest", "interest = message.interest"
    )
    assert handlers != HANDLERS
    assert first_seed_that_finds(life, range(30), handlers) is None
    assert first_seed_that_finds(troubled_life, range(30), handlers) is None


FOUND_BY = {
    **dict.fromkeys(STEADY, (life, SEEDS)),
    **dict.fromkeys(SHARED, (crowd, CROWDED_SEEDS)),
    **dict.fromkeys(RACING, (race, RACING_SEEDS)),
    **dict.fromkeys(TROUBLED, (troubled_life, TROUBLED_SEEDS)),
    **dict.fromkeys(LOST, (lost_graft, range(1))),
    **dict.fromkeys(BRIDGED, (bridge, BRIDGED_SEEDS)),
    **dict.fromkeys(CHOSEN, (chosen_life, CHOSEN_SEEDS)),
}


@pytest.mark.parametrize("name", FOUND_BY)
def test_an_error_is_found(monkeypatch, name):
    planted = {**STEADY, **SHARED, **RACING, **TROUBLED, **LOST, **BRIDGED, **CHOSEN}
    handlers = handlers_with(monkeypatch, *planted[name])
    assert first_seed_that_finds(*FOUND_BY[name], handlers) is not None
