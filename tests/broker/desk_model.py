"""The desk in a hundred plain lines: lists, linear searches, nothing remembered that can be recomputed.

Every event matches every subscription. One user. Instants and periods are whole seconds.
"""

from __future__ import annotations


class Leg:
    def __init__(self, device, window):
        self.device, self.window = device, window
        self.todo = []  # [nid, came before the leg]
        self.flying = []
        self.got = []


class Sub:
    def __init__(self, id, ordinal, scope, *, expires, period, since):
        self.id, self.ordinal, self.scope, self.expires = id, ordinal, scope, expires
        self.period, self.last, self.since, self.active = period, None, since, True


class Model:
    def __init__(self, length, age, grace):
        self.length, self.age, self.grace = length, age, grace
        self.subs, self.used = {}, 0
        self.boxes = {"": {}, "a": {}, "b": {}}  # device -> nid -> instant, of what waits
        self.dropped = {}  # nid -> reason
        self.legs = {}
        self.cancelled = []

    # -- legs

    def attach(self, device, window, now):
        leg = self.legs[device] = Leg(device, window)
        for box in ("", device):
            self.forget_old(box, now)
        leg.todo = [[nid, True] for nid in sorted([*self.boxes[""], *self.boxes[device]])]
        self.pump()
        return leg

    def detach(self, device):
        leg = self.legs.pop(device, None)
        if leg:
            for box in ("", device):
                self.shorten(box)

    def pump(self):
        for leg in self.legs.values():
            while leg.todo and len(leg.flying) < leg.window:
                nid, old = leg.todo.pop(0)
                if nid in self.dropped or (old and not self.waits(nid)):
                    continue
                leg.flying.append(nid)
                leg.got.append(nid)

    def ack(self, leg, nids):
        for nid in [nid for nid in leg.flying if nid in nids]:
            leg.flying.remove(nid)
            for box in self.boxes.values():
                box.pop(nid, None)
        self.pump()

    # -- boxes

    def waits(self, nid):
        return any(nid in box for box in self.boxes.values())

    def droppable(self, box):
        return [nid for nid in sorted(self.boxes[box]) if not any(nid in leg.flying for leg in self.legs.values())]

    def shorten(self, box):
        while len(self.boxes[box]) > self.length and self.droppable(box):
            self.drop(box, self.droppable(box)[0], "full")

    def forget_old(self, box, now):
        for nid in self.droppable(box):
            if now - self.boxes[box][nid] > self.age:
                self.drop(box, nid, "age")

    def drop(self, box, nid, reason):
        del self.boxes[box][nid]
        self.dropped[nid] = reason

    # -- subscriptions and events

    def subscribe(self, id, scope, expires, period, position):
        self.used += 1
        self.subs[id] = Sub(id, self.used, scope, expires=expires, period=period, since=position)

    def expire(self, sub):
        sub.active = False
        self.cancelled.append(sub.id)

    def publish(self, position, now):
        for sub in sorted(self.subs.values(), key=lambda sub: sub.ordinal):
            if not sub.active:
                continue
            if now >= sub.expires:
                self.expire(sub)
            elif sub.last is None or sub.period is None or now - sub.last >= sub.period:
                sub.last = now
                nid = position * 2**20 + sub.ordinal
                self.boxes[sub.scope][nid] = now
                for leg in self.legs.values():
                    if sub.scope in ("", leg.device):
                        leg.todo.append([nid, False])
                if len(self.boxes[sub.scope]) > self.length:
                    self.pump()
                    self.forget_old(sub.scope, now)
                    self.shorten(sub.scope)
        for box in self.boxes:
            if any(nid >> 20 == position for nid in self.boxes[box]) or any(
                nid >> 20 == position for nid in self.dropped
            ):
                self.forget_old(box, now)
        self.pump()

    def sweep(self, now):
        for id, sub in list(self.subs.items()):
            if sub.active and now >= sub.expires:
                self.expire(sub)
            if not sub.active and now >= sub.expires + self.grace:
                del self.subs[id]
        for box in self.boxes:
            self.forget_old(box, now)
