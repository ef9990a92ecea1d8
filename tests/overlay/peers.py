"""Live super-node peers in one event loop, with periods of about a second."""

import asyncio

from overlay.helpers import until
from recado.filters.expression import parse
from recado.model.subscription import Subscription
from recado.overlay.node import Node

FAST = {
    "download_start_seconds": 0.1,
    "filter_pieces": 0,
    "serving": "always",
    "join_batch_seconds": 0.2,
    "leave_batch_seconds": 0.2,
    "repair_seconds": 0.8,
    "repair_least_seconds": 0.3,
    "repair_most_seconds": 1.2,
    "join_retry_seconds": 2.0,
    "redirect_wait_seconds": 0.5,
    "keepalive_seconds": 1.0,
    "watchdog_grace_seconds": 1.0,
    "eta_step_seconds": 0.3,
    "event_repair_seconds": 1.0,
}


def peer(name, filter="", *others, **options):
    """A peer that wants events of this filter, and knows others."""
    subscriptions = [Subscription(f"s-{name}", parse(filter))] if filter else []
    settings = FAST | options.pop("settings", {})
    peers = [str(other.address) for other in others]
    return Node(name, protocol="super-nodes", settings=settings, peers=peers, subscriptions=subscriptions, **options)


async def come(name, filter="", *others, **options):
    """Start a peer, and wait until it has joined."""
    node = await peer(name, filter, *others, **options).start()
    await until(lambda: node.joined)
    return node


async def kill(node):
    """Without a word, as if the process had died: connections are cut, and nobody listens any more."""
    node.driver.close()
    for link in node.links.links.values():
        link.cut("killed")
    await node.stop()


async def stop(*nodes):
    await asyncio.gather(*(node.stop() for node in nodes))


def machine(node):
    return node.driver.machine.inspect()


def role(node):
    return machine(node)["role"]


def got(node):
    return [delivery.event for delivery in node.streams.deliveries]
