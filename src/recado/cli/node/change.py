"""Change a running node: its roles, its links, its life."""

from __future__ import annotations

from recado.cli.node.which import NodeName, ask_node


def become_publisher(type: str, /, *, node: NodeName = "") -> int:
    """Let a node publish events of a type.

    Parameters
    ----------
    type
        The type of event.
    node
        The node to use.
    """
    ask_node(node, "become-publisher", type=type)
    return 0


def become_broker(type: str, /, *, node: NodeName = "") -> int:
    """Let a node stop publishing a type; it still relays.

    Parameters
    ----------
    type
        The type of event.
    node
        The node to use.
    """
    ask_node(node, "become-broker", type=type)
    return 0


def connect(address: str, /, *, node: NodeName = "") -> int:
    """Let a running node have a link to another one.

    Parameters
    ----------
    address
        HOST:PORT of the other node.
    node
        The node that dials.
    """
    ask_node(node, "connect", address=address)
    return 0


def stop(*, node: NodeName = "") -> int:
    """Stop a running node: it sends what is queued and says good-bye.

    Parameters
    ----------
    node
        The node to stop.
    """
    ask_node(node, "stop")
    return 0
