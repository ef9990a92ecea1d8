"""The system sizer (2.10): leaders of slices spend spare upload on more super nodes, slot by slot.

Every ``sizer_seconds`` a leader works out what an entry into the layer costs it and how many more the budget would
pay. So many slots are released over the next period, at random moments; the next broadcast takes those that are ready
with it, and every node that gets slots uses one: it promotes one of its children.
"""

from __future__ import annotations

from recado.protocols.machine import CancelTimer, SetTimer
from recado.protocols.supernodes.members import Endpoint
from recado.protocols.supernodes.messages import PromoteChild
from recado.protocols.supernodes.settings import SuperNodeSettings
from recado.protocols.supernodes.state import Layer, Out, Sizer, State, pick, send


def evaluate(state: State, layer: Layer, leads: bool, out: Out) -> None:
    """The sizer's period is over. A node that leads no more forgets its sizer."""
    sizer = layer.sizer
    if sizer is None:
        return
    if not leads:
        layer.sizer = None
        out.append(CancelTimer("slot"))
        return
    update(sizer, layer.up, state.settings)
    out.append(SetTimer("sizer", state.settings.sizer_seconds))
    _next_slot(state, sizer, out)


def update(sizer: Sizer, upload: int, settings: SuperNodeSettings) -> None:
    """Steps 1 to 6 of the evaluation; ``upload`` is all that the node has sent."""
    period = settings.sizer_seconds
    used, entries = upload - sizer.upload, sizer.entries
    sizer.upload, sizer.entries = upload, 0
    spare = settings.budget_bytes_per_second * period
    if settings.budget_mode == "limit":
        spare -= used
    if 0 < settings.max_upload_bytes_per_second < used / period:
        spare = 0.0
    slots = spare / (used / entries) / settings.slices if spare > 0 and entries > 0 and used > 0 else 0.0
    sizer.rate = (slots / period + sizer.rate) / 2
    sizer.cap = slots
    sizer.ready = sizer.generated = 0


def _next_slot(state: State, sizer: Sizer, out: Out) -> None:
    """Wait for the next slot, unless the period's slots are used up."""
    if sizer.rate > 0 and sizer.generated + 1 <= sizer.cap:
        out.append(SetTimer("slot", state.rng.expovariate(sizer.rate)))
    else:
        out.append(CancelTimer("slot"))


def slot_is_due(state: State, out: Out) -> None:
    sizer = state.layer.sizer if state.layer is not None else None
    if sizer is not None:
        sizer.ready += 1
        sizer.generated += 1
        _next_slot(state, sizer, out)


def promote_one(state: State, layer: Layer, out: Out) -> None:
    """Use a slot: a random child enters the layer. Without children the slot is lost."""
    if layer.children:
        child = pick(state.rng, list(layer.children))
        del layer.children[child]
        layer.pending_k.pop(child, None)
        send(state, child, PromoteChild(), "a slot of the sizer promotes one child", out)


def promote_child_failed(state: State, to: Endpoint, message: PromoteChild, out: Out) -> None:
    if state.layer is not None:
        promote_one(state, state.layer, out)
