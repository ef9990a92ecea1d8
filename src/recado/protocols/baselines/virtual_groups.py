"""The virtual groups of Zhang and Hu (section 3.8): one tree, matching at the root, groups that need no matching.

Subscriptions go up to the root, filters that mean the same once. An event goes up to the root, which knows all filters
and so can tell which ones it matches; the nodes that hold those are its *virtual group*. The first event of a group is
matched at every node on its way down, and each remembers the branches. Later events of the group carry its name and
are passed on from memory. A node forgets its groups whenever its table changes.

While a subscription is on its way up, an event may come to a branch that has no use for it; the last node drops it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.baselines.algebra import name_of
from recado.protocols.baselines.messages import Grouped, Interests, Raised
from recado.protocols.baselines.node import Node
from recado.protocols.baselines.router import Router
from recado.protocols.baselines.strategies import Exact
from recado.protocols.machine import Effect, NodeId, Send

REMEMBERED = 4096
"""How many groups a node remembers; then it starts afresh."""


class VirtualGroupNode(Node):
    """``parent`` is one node, or nothing at the root."""

    def __init__(self, me: NodeId, parent: tuple[NodeId, ...]) -> None:
        super().__init__(me)
        self.parent = parent
        self.router = Router(dict.fromkeys(parent, Exact()))
        self.groups: dict[str, tuple[NodeId, ...]] = {}
        self.matched = 0
        """How many events this node had to match against the rows of its branches."""

    def subscribed(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        self.groups.clear()
        return self.router.subscribe((name_of(text), text))

    def unsubscribed(self, subscription: Subscription, text: str) -> Sequence[Effect]:
        self.groups.clear()
        return self.router.unsubscribe(name_of(text))

    def published(self, event: Event) -> Sequence[Effect]:
        return self._raise(Raised(event))

    def received(self, sender: NodeId, message: Any) -> Sequence[Effect]:
        if isinstance(message, Interests):
            self.groups.clear()
            return self.router.change(sender, message)
        if isinstance(message, Raised):
            return self._raise(message)
        return self._descend(message)

    def tables(self) -> dict[NodeId, dict[str, str]]:
        return {neighbour: dict(rows.texts) for neighbour, rows in self.router.rows.items()}

    def inspect(self) -> dict[str, Any]:
        groups = {group: list(branches) for group, branches in self.groups.items()}
        return super().inspect() | {"groups": groups, "matched": self.matched}

    def _raise(self, message: Raised) -> list[Effect]:
        if self.parent:
            return [Send(parent, message, "every event goes to the root") for parent in self.parent]
        matching = sorted(self.router.all.matching(message.event))
        if not matching:
            return []
        group = blake2b("\n".join(matching).encode(), digest_size=8).hexdigest()
        return self._descend(Grouped(message.event, group))

    def _descend(self, message: Grouped) -> list[Effect]:
        branches = self.groups.get(message.group)
        if branches is None:
            branches = self._match(message)
        return self.deliver(message.event) + [
            Send(branch, message, "the virtual group has members on this branch") for branch in branches
        ]

    def _match(self, message: Grouped) -> tuple[NodeId, ...]:
        self.matched += 1
        if len(self.groups) >= REMEMBERED:
            self.groups.clear()
        branches = tuple(branch for branch, rows in self.router.rows.items() if rows.wants(message.event))
        self.groups[message.group] = branches
        return branches
