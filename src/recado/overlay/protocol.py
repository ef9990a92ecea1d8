"""Which machine a node runs, and how its messages are read.

Messages come from other machines, so they are checked here, where they enter: their form by the decoder, events by
the model's limits, and filters by parsing them. A machine may rely on what it is given; otherwise one peer's broken
filter would be met by every later event. The name is part of the hello, so nodes of different protocols do not link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from recado.errors import RecadoError
from recado.filters.cost import check_filter
from recado.model.limits import LIMITS
from recado.model.subscription import check_id
from recado.overlay.limits import LinkError, OverlayError
from recado.protocols.machine import Machine, NodeId
from recado.protocols.trees import MESSAGES, TreeNode, TreeSettings
from recado.protocols.trees.messages import Graft, Interest, Join, MPYes, Q
from recado.protocols.wire import decoder, encode, read_filter

_COMMON = ("mpp", "forwarding")


class OverlayProtocol:
    """``make`` gives the machine of a node; ``messages`` is the union of what its machines say to each other.

    ``check`` raises a RecadoError for a message of the right form that a machine should not see.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[NodeId], Machine],
        messages: Any,
        check: Callable[[Any], None] = lambda message: None,
    ) -> None:
        self.name, self.make = name, make
        self._decode, self._check = decoder(messages), check

    def encode(self, message: Any) -> bytes:
        return encode(message)

    def decode(self, payload: bytes) -> Any:
        """The message in a payload; a LinkError if it is none of this protocol."""
        try:
            message = self._decode(payload)
            self._check(message)
        except (RecadoError, RecursionError) as error:
            raise LinkError(f"a frame that is no message of protocol {self.name!r}: {error}") from None
        return message


def check_tree_message(message: Any) -> None:
    match message:
        case Q(interest) | Graft(_, interest) | Join(interest):
            _check_interest(interest)
        case MPYes(_, found):
            for interest in found:
                _check_interest(interest)


def _check_interest(interest: Interest) -> None:
    check_id(interest.id)
    if len(interest.type) > LIMITS.pattern_chars:
        raise LinkError(f"a type has {len(interest.type):,} characters; the limit is {LIMITS.pattern_chars:,}")
    _check_filter(interest.filter)


@lru_cache(maxsize=4_096)
def _check_filter(text: str) -> None:
    check_filter(read_filter(text))


TREES = OverlayProtocol("trees", TreeNode, MESSAGES, check_tree_message)


def trees(settings: Mapping[str, Any]) -> OverlayProtocol:
    """The tree protocol with other settings than the usual; names as in ``TreeSettings``.

    What has to be the same in the whole overlay becomes part of the protocol's name, so that the hello sees to it.
    """
    usual = TreeSettings()
    for name in settings:
        if name not in usual.__struct_fields__:
            raise OverlayError(f"there is no setting {name!r}; there are {', '.join(usual.__struct_fields__)}")
    try:
        chosen = msgspec.convert(settings, TreeSettings)
    except msgspec.ValidationError as error:
        raise OverlayError(f"the settings of the protocol: {error}") from None
    common = [f"{name}={getattr(chosen, name)}" for name in _COMMON if getattr(chosen, name) != getattr(usual, name)]
    return OverlayProtocol(" ".join(["trees", *common]), lambda me: TreeNode(me, chosen), MESSAGES, check_tree_message)
