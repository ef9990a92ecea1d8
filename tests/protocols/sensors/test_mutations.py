"""Planted bugs: each must be found by the quick tests of its layer, or by the first random worlds.

What runs is the real stack with one error in it. Without an error the same runs pass, in their own modules.
"""

import pytest

from planted import is_found, mutate, scripts
from protocols.sensors import test_aodv, test_delivery, test_hostile, test_pampa, test_pcache, test_vectors, test_worlds
from recado.protocols.sensors.aodv import Aodv
from recado.protocols.sensors.delivery import Delivery
from recado.protocols.sensors.node import SensorNode
from recado.protocols.sensors.pampa import Pampa
from recado.protocols.sensors.pcache import Cache

PAMPA = {
    "near nodes relay first": (Pampa.hold_seconds, "parameters.hold_factor * 10.0", "1e-9 / 10.0"),
    "a hold has no bound": (Pampa.hold_seconds, "if seconds <= parameters.hold_seconds", "if True"),
    "copies are not counted": (SensorNode.handle, "hold.copies += 1", "pass"),
    "one copy too many is allowed": (Pampa.is_relay, "hold.copies < ", "hold.copies <= "),
    "what is done is heard again": (SensorNode.handle, "if hold is None:", "if False:"),
    "an own broadcast is heard": (Pampa.broadcast, "self.finish(message.id)", "pass"),
    "everything is remembered": (Pampa._remember, "> self._context.settings.remembered:", "> 10**9:"),
    "a released message stays": (Pampa.release, "self.heard[message_id] = None", "pass"),
}
PCACHE = {
    "the first distance counts, not the least": (SensorNode.handle, "hold.least_dfs = message.dfs", "pass"),
    "copies are too far apart": (Cache.decide_store, "hold.least_dfs >= ", "hold.least_dfs > "),
    "who stores is silent": (
        Cache.decide_store,
        'self._context.broadcast(Store(message.id, message.items, 0), "stored: no copy was near enough")',
        "pass",
    ),
    "a relay does not count its hop": (Cache.decide_store, "hold.least_dfs + 1", "hold.least_dfs"),
    "an own item may be evicted": (Cache._choose_victim, "if not stored.own", "if True"),
    "a full store takes more": (Cache._make_room, "return False", "return True"),
    "an own item takes nobody's place": (Cache._choose_victim, "and not for_own", ""),
    "a leaf relays": (Cache.on_query, "relays = message.ttl > 1", "relays = True"),
    "a relay does not wait for its children": (Cache.decide_query, "* (message.ttl - 1)", "* 0"),
    "a query never ends": (Cache.decide_query, "message.ttl - 1, min", "message.ttl, min"),
    "answers are sent again": (Cache.fire, "if key not in gather.sent", "if True"),
    "stragglers are kept": (Cache.on_reply, "self.fire(message.id)", "pass"),
    "late answers are lost": (Cache.on_reply, "self.late(gather, fresh)", "pass"),
    "late answers come again": (Delivery.on_late, "if dest in gather.served:", "if False:"),
    "queries are kept for ever": (Cache._begin, ".expires <= now", ".expires <= -1"),
    "a cancelled item stays": (Cache._cancel, "self._remove(item.key)", "pass"),
    "a cancelled item comes back": (Cache._bury, "self.gone[item.key] = ", "_ = "),
    "others cancel one's own": (Cache._cancel, "known is not None and known.own", "False"),
    "a lease does not end": (Cache._purge, "one.expires <= now", "False"),
    "anybody's filter covers": (Cache._is_covered, "one.item.key[0] == item.key[0] and", ""),
    "what was covered stays without copies": (Delivery.unsubscribe, "self._uncover(own)", "pass"),
    "a shuffled copy is lost": (Cache._shuffle, "gather.moved.append(self._copy(self.zone[victim]))", "pass"),
    "who has a key relays the lookup": (Cache.on_lookup, "if gather.items:", "if False:"),
}
AODV = {
    "requests are relayed whenever they come": (SensorNode.handle, "self._seen.get(message.id, 0.0) > now", "False"),
    "the first request goes one ring": (Aodv._choose_ttl, "if last == 0:", "if True:"),
    "rings do not grow": (Aodv._choose_ttl, "last + parameters.ttl_increment", "last"),
    "there is no end of requests": (Aodv._discover, "route.requests > parameters.rreq_retries", "False"),
    "every packet asks anew": (Aodv.send, "self._context.now >= route.wait_until and", ""),
    "no route back is learnt": (Aodv.on_request, "self._flush(src, back)", "back.state = 'down'"),
    "hops are not counted": (Aodv._relay, "min(message.hop_count + 1, MOST_HOPS)", "message.hop_count"),
    "a request has no end": (Aodv._relay, "ttl=message.ttl - 1", "ttl=message.ttl"),
    "an old number is good enough": (Aodv.on_request, "known >= message.dst_seq", "True"),
    "who answers relays as well": (
        Aodv.on_request,
        "self._answer_for(message, there, back)",
        "(self._answer_for(message, there, back), self._relay(message, known))",
    ),
    "a worse route replaces a better one": (Aodv._is_better, "hops < route.hops", "True"),
    "the reply ends at its first hop": (Aodv.on_reply, 'context.send(back.next_hop, reply, "on its', '("on its'),
    "what waited is not sent": (Aodv._flush, 'self._forward(packet, route, "a route was found")', "pass"),
    "what waits has no bound": (Aodv._keep, "len(alive) >= settings.buffer_packets", "False"),
    "what waits has no age": (Aodv._take, "if one.expires > now", "if True"),
    "a failed hop is used again": (Aodv.link_failed, "self._take_down(route)", "pass"),
    "nobody is told of a failed hop": (Aodv._tell_lost, "if told and", "if False and"),
    "errors of anybody are believed": (Aodv.on_error, "route.next_hop == sender", "True"),
    "routes expire although they must not": (
        Aodv._update,
        "if self._context.settings.route_expiry else math.inf",
        "if True else math.inf",
    ),
    "use does not prolong a route": (Aodv._touch, "max(route.expires", "min(route.expires"),
    "packets travel for ever": (Aodv.on_data, "packet.ttl - 1)", "packet.ttl)"),
    "a node that starts again is as old as before": (Aodv.start, "self.seq += ", "_ = "),
}
DELIVERY = {
    "a query notifies": (
        Cache.on_query,
        "items = self.local_match(message.event)",
        "items = self.local_match(message.event); self.collected.__self__._notify(message.id, message.event)",
    ),
    "a publication is notified whenever it comes": (Delivery._notify, "if pid in self.notified:", "if False:"),
    "what nobody asked for is notified": (Delivery._notify, "if matched(own.filter)", "if True"),
    "a group is dropped where it parts": (Delivery._dispatch, "for dest in together:", "for dest in together[1:]:"),
    "a group is sent to one only": (Delivery._dispatch, "tuple(together)", "tuple(together[:1])"),
    "those without a route are forgotten": (Delivery._dispatch, "for dest in unknown:", "for dest in ():"),
    "a relay in a group is not notified": (Delivery.on_group, "if context.me in message.dests:", "if False:"),
    "a relay in a group sends to itself": (Delivery.on_group, "if dest != context.me", "if True"),
    "a group goes in circles": (Delivery.on_group, "known in self._groups", "False"),
    "a group has no end": (Delivery.on_group, "message.hops_left - 1", "message.hops_left"),
    "a group that failed is lost": (Delivery.group_failed, "for dest in message.dests:", "for dest in ():"),
    "all copies leave at once": (Delivery._hand_over, "self._next_free = slot +", "self._next_free = 0 * slot + 0 *"),
    "a slot is lost": (Delivery.slot_is_due, "self._leave(handover)", "pass"),
    "relays pace everything": (Delivery._dispatch, "first and settings.pace_mode", "settings.pace_mode"),
    "adaptive pacing waits for a slot": (Delivery.on_route, "if dest == self._outstanding:", "if False:"),
    "the publisher forgets itself": (Delivery._deliver_to, "self._notify(pid, event)", "pass"),
    "what waits for a slot has no bound": (Delivery._hand_over, "context.settings.max_handovers", "10**9"),
}
GUARD = {
    "forged answers are believed": (Cache._admit, "if not wanted or", "if False and"),
    "answers have no limit": (Cache._admit, "elif len(gather.items) >= ", "elif -1 >= "),
    "a liar's announcements are all stored": (Cache._is_beyond_limits, ">= settings.max_stored", ">= 10**9"),
    "a larger version needs no room": (Cache._replace, "if not self._make_room(item):", "if False:"),
    "a neighbour may send without limit": (SensorNode._may_send, "return left >= 1.0", "return True"),
}
LAYERS = {
    "pampa": (PAMPA, (test_pampa, test_vectors)),
    "pcache": (PCACHE, (test_pcache, test_vectors, test_hostile)),
    "aodv": (AODV, (test_aodv, test_vectors)),
    "guard": (GUARD, (test_hostile,)),
    "delivery": (DELIVERY, (test_delivery, test_vectors, test_pcache, test_hostile)),
}
ALL = {name: (modules, *error) for errors, modules in LAYERS.values() for name, error in errors.items()}


def runs(modules):
    for module in modules:
        yield from scripts(module)
    yield from ((test_worlds.test_a_connected_network, (seed,)) for seed in range(3))


def test_the_tool_changes_nothing_else(monkeypatch):
    mutate(monkeypatch, Cache.fire, "gather.fired = True", "gather.fired = True")
    assert not is_found(scripts(test_pcache))


def test_there_are_enough_of_them():
    assert len(ALL) >= 25


@pytest.mark.parametrize("name", ALL)
def test_an_error_is_found(monkeypatch, name):
    modules, *error = ALL[name]
    mutate(monkeypatch, *error)
    assert is_found(runs(modules)), f"{name}: nothing noticed it"
