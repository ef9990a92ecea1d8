"""Messages are checked where they enter a node."""

import pytest

from recado.protocols.trees import PROTOCOL
from recado.protocols.trees.messages import Graft, Interest, Join, MPYes, Q
from recado.protocols.wire import WireError

TREES = PROTOCOL.configure({})
GOOD = Interest("s-1", 1, "Tick", "Price < 25")
BROKEN = Interest("s-1", 1, "Tick", "Price <")
NAMELESS = Interest("", 1, "Tick", "Price < 25")


def carriers(interest):
    return [Q(interest), Graft(7, interest), Join(interest, "s-0"), MPYes(7, (interest,))]


@pytest.mark.parametrize("message", carriers(GOOD), ids=lambda message: type(message).__name__)
def test_a_message_with_a_good_interest_is_read(message):
    assert TREES.decode(TREES.encode(message)) == message


@pytest.mark.parametrize("message", carriers(BROKEN) + carriers(NAMELESS), ids=lambda message: type(message).__name__)
def test_a_message_with_a_bad_interest_is_refused(message):
    with pytest.raises(WireError, match="no message of protocol 'trees'"):
        TREES.decode(TREES.encode(message))
