"""Errors planted in links on demand, one by one: a test of ``test_contacts`` has to find each."""

import gc

import pytest

from overlay import test_contacts as tests
from overlay.helpers import run
from overlay.test_contacts import Ack
from planted import mutate
from recado.overlay.contacts import Contacts
from recado.overlay.link import Link

BUGS = {
    "what comes again is taken again": (
        Contacts._on_message,
        "or number < incoming.number",
        "or True",
        tests.test_what_is_sent_twice_is_taken_once,
    ),
    "numbers of an earlier life count": (
        Contacts._on_message,
        "session != incoming.session or",
        "",
        tests.test_what_is_sent_twice_is_taken_once,
    ),
    "too many tries": (
        Contacts._try_again,
        "contact.tries < self._limits.ack_tries",
        "contact.tries < 3",
        tests.test_no_answer_at_all_fails_after_two_tries,
    ),
    "one try": (
        Contacts._try_again,
        "contact.tries < self._limits.ack_tries",
        "contact.tries < 1",
        tests.test_no_answer_at_all_fails_after_two_tries,
    ),
    "some of the lost messages are not told": (
        Contacts._fail,
        "for one in lost:",
        "for one in lost[:1]:",
        tests.test_no_answer_at_all_fails_after_two_tries,
    ),
    "a refusal is not told": (
        Contacts._call,
        "self._fail(contact)",
        "pass",
        tests.test_a_refused_connection_fails_at_once,
    ),
    "numbers begin anew on a second connection": (
        Contacts._keep_contact,
        "contact.pending[0].number if contact.pending else contact.number + 1",
        "contact.number + 1",
        tests.test_who_takes_and_never_acknowledges_gets_the_same_numbers_again_and_fails,
    ),
    "what waited is not sent": (
        Contacts._keep_contact,
        "for one in contact.pending:",
        "for one in ():",
        tests.test_a_message_comes_from_the_endpoint_of_its_sender_and_is_acknowledged,
    ),
    "an acknowledgement does not give more time": (
        Contacts._on_ack,
        "self._set_timer(contact)",
        "pass",
        tests.test_a_slow_receiver_that_acknowledges_something_is_waited_for,
    ),
    "an acknowledgement gives time for ever": (
        Contacts._on_ack,
        "if pending:",
        "if False:",
        tests.test_who_acknowledges_one_message_and_then_nothing_more_fails_with_the_others,
    ),
    "nothing is acknowledged": (
        Contacts._acknowledge,
        "Ack(incoming.number)",
        "Ack(0)",
        tests.test_a_message_comes_from_the_endpoint_of_its_sender_and_is_acknowledged,
    ),
    "any acknowledgement is believed": (
        Contacts._on_ack,
        "message.number > contact.number",
        "False",
        lambda: tests.test_who_answers_badly_loses_the_link((Ack(7), True)),
    ),
    "there is always room": (
        Contacts._make_room,
        "return False",
        "return True",
        tests.test_few_links_serve_many_peers,
    ),
    "a full node lets nobody go": (
        Contacts._keep_incoming,
        "len(self._incoming) > self._most_incoming",
        "False",
        tests.test_a_node_takes_in_new_senders_by_letting_go_of_old_ones,
    ),
    "idle links are kept": (
        Contacts._sweep,
        "now - contact.used > idle",
        "False",
        tests.test_a_link_that_is_not_used_is_closed,
    ),
    "anybody may say to be anywhere": (
        Contacts.keep,
        "claimed.host != remote.host",
        "False",
        lambda: tests.test_a_peer_that_breaks_the_rules_loses_its_link_and_nothing_else(
            "127.0.0.2:77", [], "says it is at '127.0.0.2:77' speaks from 127.0.0.1"
        ),
    ),
    "a node on loopback dials anywhere": (
        Contacts._read,
        "self.address.loopback and not address.loopback",
        "False",
        lambda: tests.test_what_is_no_endpoint_for_this_node_fails_at_once("10.11.12.13:700"),
    ),
    "one peer may hold everything": (
        Contacts.send,
        "contact.pending_bytes + len(payload) > self._limits.queue_bytes",
        "False",
        tests.test_a_peer_that_does_not_take_anything_holds_a_bounded_amount,
    ),
    "floods are read at full speed": (
        Link._pause,
        "-self._allowed / most",
        "0.0",
        tests.test_a_peer_that_floods_is_read_slowly_and_others_are_not_hurt,
    ),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_errors_are_found(bug, monkeypatch):
    function, old, new, test = BUGS[bug]
    mutate(monkeypatch, function, old, new)
    monkeypatch.setattr(tests, "run", lambda work: run(work, 3))
    with pytest.raises((AssertionError, TimeoutError)) as found:
        test()
    del found
    gc.collect()  # a test that fails leaves connections of its own open
