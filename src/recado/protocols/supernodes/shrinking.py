"""A maximum of upload (setting ``max_upload_bytes_per_second``, future work 3): the layer shrinks until it is kept.

A member that has sent as much as it may in a period lets its children send the rest (``load``), and serves downloads
only to those that were refused often. That helps at once, but it only moves the work. What members and their children
pay together follows the entries into the layer and its size. A member that has sent more than the maximum, that
included, looks for another one that is not needed: one more than K of its filter, or, with ``covering``, one without
children whose filter another one covers. It asks that one to become a child (``Demote``). Who is asked checks in its
own table that it is not needed. It keeps its place until it is taken, and gives its children to its new father.
"""

from __future__ import annotations

from recado.protocols.algebra import name_of
from recado.protocols.machine import SetTimer
from recado.protocols.supernodes import family
from recado.protocols.supernodes.members import Endpoint, Member
from recado.protocols.supernodes.messages import Demote
from recado.protocols.supernodes.state import Joining, Layer, Out, State, pick, send


def check_upload(state: State, out: Out) -> None:
    """Compare the upload of the last period with the maximum."""
    layer, settings = state.layer, state.settings
    if layer is None:
        return
    out.append(SetTimer("upload", settings.upload_seconds))
    rate = (layer.up - layer.measured) / settings.upload_seconds
    layer.measured, layer.given = layer.up, 0
    if rate <= settings.max_upload_bytes_per_second or not (layer.active and settings.families):
        return
    spare = find_spare(state, layer)
    if not spare:
        return
    one, father = pick(state.rng, spare)
    demand = Demote(one.key, father.key)
    if one.key == layer.key:
        on_demote(state, state.me, demand, out)
    else:
        send(state, one.endpoint, demand, "the layer is larger than need be", out)


def find_spare(state: State, layer: Layer) -> list[tuple[Member, Member]]:
    """Members that are not needed, each with the one it could be a child of."""
    groups: dict[str, list[Member]] = {}
    for member in layer.membership.members:
        if member.key not in layer.suspects:
            groups.setdefault(name_of(member.filter), []).append(member)
    spare = [(one, group[0]) for group in groups.values() for one in group[state.settings.k :]]
    if state.settings.covering and not spare:
        for group in groups.values():
            father = _cover_of(state, layer, group[0])
            if father is not None:
                spare.append((group[0], father))
    return spare


def _cover_of(state: State, layer: Layer, member: Member) -> Member | None:
    """The narrowest filter that covers a member's and is not equal to it."""
    name = name_of(member.filter)
    others = [one for one in layer.membership.members if name_of(one.filter) != name and one.key not in layer.suspects]
    return family.narrowest_cover(others, member.filter)


def on_demote(state: State, sender: Endpoint, message: Demote, out: Out) -> None:
    """Become a child, if this node is not needed where it is."""
    layer = state.layer
    if layer is None or state.child is not None or state.joining is not None or state.moving or state.left:
        return
    if message.key != layer.key or not layer.active or state.handover is not None or layer.pending_joins:
        return
    spare = {one.key: father for one, father in find_spare(state, layer)}
    father = spare.get(layer.key)
    if father is None or father.key != message.father:
        return
    covered = name_of(father.filter) != state.name
    if layer.covered or (covered and layer.children):
        return
    state.moving = "below"
    state.joining = Joining(state.now)
    state.joining.covered = covered
    family.ask_to_join(state, state.joining, father.endpoint, out)
