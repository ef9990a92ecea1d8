"""The broker in a hundred plain lines: lists, linear searches, nothing remembered that can be recomputed.

Every event matches every subscription. One user. Instants and periods are whole seconds.
"""

from __future__ import annotations


class Consumer:
    def __init__(self, device, window):
        self.device, self.window = device, window
        self.todo = []  # [nid, came before the consumer]
        self.in_flight = []
        self.got = []


class Sub:
    def __init__(self, id, ordinal, scope, *, expires, period, since):
        self.id, self.ordinal, self.scope, self.expires = id, ordinal, scope, expires
        self.period, self.last, self.since, self.active = period, None, since, True


class Model:
    def __init__(self, length, age, grace):
        self.length, self.age, self.grace = length, age, grace
        self.subs, self.used = {}, 0
        self.mailboxes = {"": {}, "a": {}, "b": {}}  # device -> nid -> instant, of what waits
        self.dropped = {}  # nid -> reason
        self.consumers = {}
        self.cancelled = []

    # -- consumers

    def attach(self, device, window, now):
        consumer = self.consumers[device] = Consumer(device, window)
        for mailbox in ("", device):
            self.forget_old(mailbox, now)
        consumer.todo = [[nid, True] for nid in sorted([*self.mailboxes[""], *self.mailboxes[device]])]
        self.pump()
        return consumer

    def detach(self, device):
        consumer = self.consumers.pop(device, None)
        if consumer:
            for mailbox in ("", device):
                self.shorten(mailbox)

    def pump(self):
        for consumer in self.consumers.values():
            while consumer.todo and len(consumer.in_flight) < consumer.window:
                nid, old = consumer.todo.pop(0)
                if nid in self.dropped or (old and not self.waits(nid)):
                    continue
                consumer.in_flight.append(nid)
                consumer.got.append(nid)

    def ack(self, consumer, nids):
        for nid in [nid for nid in consumer.in_flight if nid in nids]:
            consumer.in_flight.remove(nid)
            for mailbox in self.mailboxes.values():
                mailbox.pop(nid, None)
        self.pump()

    # -- mailboxes

    def waits(self, nid):
        return any(nid in mailbox for mailbox in self.mailboxes.values())

    def droppable(self, mailbox):
        return [
            nid
            for nid in sorted(self.mailboxes[mailbox])
            if not any(nid in consumer.in_flight for consumer in self.consumers.values())
        ]

    def shorten(self, mailbox):
        while len(self.mailboxes[mailbox]) > self.length and self.droppable(mailbox):
            self.drop(mailbox, self.droppable(mailbox)[0], "full")

    def forget_old(self, mailbox, now):
        for nid in self.droppable(mailbox):
            if now - self.mailboxes[mailbox][nid] > self.age:
                self.drop(mailbox, nid, "age")

    def drop(self, mailbox, nid, reason):
        del self.mailboxes[mailbox][nid]
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
                self.mailboxes[sub.scope][nid] = now
                for consumer in self.consumers.values():
                    if sub.scope in ("", consumer.device):
                        consumer.todo.append([nid, False])
                if len(self.mailboxes[sub.scope]) > self.length:
                    self.pump()
                    self.forget_old(sub.scope, now)
                    self.shorten(sub.scope)
        for mailbox in self.mailboxes:
            if any(nid >> 20 == position for nid in self.mailboxes[mailbox]) or any(
                nid >> 20 == position for nid in self.dropped
            ):
                self.forget_old(mailbox, now)
        self.pump()

    def sweep(self, now):
        for id, sub in list(self.subs.items()):
            if sub.active and now >= sub.expires:
                self.expire(sub)
            if not sub.active and now >= sub.expires + self.grace:
                del self.subs[id]
        for mailbox in self.mailboxes:
            self.forget_old(mailbox, now)
