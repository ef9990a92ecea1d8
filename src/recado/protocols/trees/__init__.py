"""Subscription trees: publish/subscribe without brokers, where every node relays.

``TreeNode`` is the machine of one node; docs/trees.md explains the protocol. The modules follow
its operations: ``subscribe`` (CAI, CI), ``notify`` (NE), ``publisher`` (MPP, MPB), and ``repair`` for what comes and
goes. The state that they share is in ``state`` and ``table``.
"""

from recado.protocols.trees.messages import MESSAGES
from recado.protocols.trees.node import PROTOCOL, TreeNode
from recado.protocols.trees.state import SettingsError, TreeError, TreeSettings

__all__ = ["MESSAGES", "PROTOCOL", "SettingsError", "TreeError", "TreeNode", "TreeSettings"]
