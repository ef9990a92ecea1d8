"""Children send what their father passes on in trees: always (``fair``, future work 2), or when he has sent as much as
he may (``max_upload_bytes_per_second``, future work 3).

A sub node knows no members, so it cannot be made responsible for an interval. But its father can, and then let it send
what he has worked out: one message to the child (``Relay``) instead of one to each receiver. Who of the family sends is
drawn anew every time; with ``fair`` the father is one of them, so that in the long run all pay alike. What the child
cannot deliver, and what receivers answer, it gives back to the father.
"""

from __future__ import annotations

from typing import Any

from recado.protocols.machine import Send
from recado.protocols.supernodes.members import Endpoint
from recado.protocols.supernodes.messages import MembershipCast, Relay, Returned, TurmoilCast
from recado.protocols.supernodes.state import Layer, Out, State, send

LEAST = 2
"""Less than so many messages the father sends himself: a child would save nothing."""


def may_relay(state: State) -> bool:
    """Do children of this overlay send for their fathers?"""
    return state.settings.fair or state.settings.max_upload_bytes_per_second > 0


def is_over(state: State, layer: Layer) -> bool:
    """Has the node sent all that it may in this period? What children sent for it does not count."""
    most = state.settings.max_upload_bytes_per_second * state.settings.upload_seconds
    return 0 < most < layer.up - layer.measured - layer.given


def delegate(state: State, layer: Layer, begun: int, out: Out) -> None:
    """Let a random one of the family, or nobody, send the casts that were put into ``out`` from ``begun`` on."""
    if not layer.children:
        return
    over = is_over(state, layer)
    if not over and not state.settings.fair:
        return
    mine = out[begun:]
    casts = [one for one in mine if isinstance(one, Send) and isinstance(one.message, MembershipCast | TurmoilCast)]
    if len(casts) < LEAST:
        return
    children = list(layer.children)
    drawn = int(state.rng.random() * (len(children) + (not over)))
    if drawn == len(children):
        return
    out[begun:] = [one for one in mine if one not in casts]
    # the balance counts it as if the father had sent it: he would be given more work otherwise
    relay = Relay(tuple((_endpoint(one.receiver), one.message) for one in casts))
    layer.given += sum(state.size_of(one.message) for one in casts) - state.size_of(relay)
    out.append(Send(children[drawn], relay, "a child sends what its father has worked out"))


def _endpoint(receiver: Any) -> Endpoint:
    known: Endpoint = receiver
    return known


def on_relay(state: State, sender: Endpoint, message: Relay, out: Out) -> None:
    child = state.child
    if child is not None and child.father == sender:
        for to, cast in message.casts:
            out.append(Send(to, cast, "sent for the father"))


def relay_failed(state: State, to: Endpoint, message: Relay, out: Out) -> None:
    """The child is gone: send it oneself."""
    if state.layer is not None:
        for receiver, cast in message.casts:
            send(state, receiver, cast, "sent for a child that is gone", out)


def give_back(state: State, to: Endpoint, message: MembershipCast | TurmoilCast, out: Out) -> None:
    """A sub node could not deliver what it sent for its father: it tells him."""
    if state.child is not None:
        out.append(Send(state.child.father, Returned(to, message), "what could not be delivered for the father"))
