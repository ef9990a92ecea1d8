"""A broker of a few lines and a line that breaks: what the agent is tried against.

The broker does each request once (by ``req``), logs events by id, and keeps for its one user what is not confirmed.
The line keeps order, as TCP does, and when it breaks, everything on its way is lost in both directions.
"""

from __future__ import annotations

import heapq
from datetime import UTC, datetime

import msgspec

from recado.model.values import format_time
from recado.protocols import machine
from recado.protocols.session import commands as words
from recado.protocols.session import messages as m

TTL = 60.0


def at(seconds):
    return format_time(datetime.fromtimestamp(seconds, UTC))


class Broker:
    """``subs`` maps ids to expiry; ``mail`` holds the NOTIFYs that are not confirmed, ``log`` event ids by position."""

    def __init__(self, window=8):
        self.window = self.room = window
        self.log = {}
        self.subs = {}
        self.done = {}
        self.times_done = {}
        self.mail = {}
        self.notices = {}
        self.sent = []
        self.hellos = []
        self.queries = 0
        self.renewals = 0

    def receive(self, messages, now):
        """The messages that go back."""
        answers = []
        for message in messages:
            match message:
                case m.Hello():
                    self.hellos.append(message)
                    self.sent, self.room = [], self.window
                    answers += [m.Welcome("ana", message.device, self.window, len(self.mail)), *self.notices.values()]
                case m.Ack(upto, notices, nids, window):
                    self.room = window or self.room
                    for nid in [nid for nid in self.sent if nid in nids or (upto is not None and nid <= upto)]:
                        self.sent.remove(nid)
                        self.mail.pop(nid, None)
                    for notice in notices:
                        self.notices.pop(notice, None)
                case m.Bye():
                    pass
                case _:
                    if message.req not in self.done or isinstance(message, m.QuerySubs | m.Replay):
                        self.done[message.req] = self.carry_out(message, now)
                        self.times_done[message.req] = self.times_done.get(message.req, 0) + 1
                    answers += self.done[message.req]
        return answers + self.push()

    def carry_out(self, message, now):
        req = message.req
        match message:
            case m.Publish(_, event):
                return [m.Ok(req, self.publish(msgspec.json.decode(event)["id"], now))]
            case m.Subscribe(_, sub):
                record = msgspec.json.decode(sub)
                self.subs[record["id"]] = now + record.get("ttl", TTL)
                return [m.Subscribed(req, record["id"], at(self.subs[record["id"]]))]
            case m.Renew(_, sub_id, _, ttl):
                self.renewals += 1
                if sub_id not in self.subs:
                    return [m.Error(req, 404, "no such subscription")]
                self.subs[sub_id] = now + (ttl or TTL)
                return [m.Subscribed(req, sub_id, at(self.subs[sub_id]))]
            case m.Unsubscribe(_, sub_id):
                self.subs.pop(sub_id, None)
                return [m.Ok(req)]
            case m.DiscardSubs():
                self.subs.clear()
                self.mail.clear()
                return [m.Ok(req)]
            case m.QuerySubs():
                self.queries += 1
                return [m.Subs(req, tuple({"id": id, "expires_at": at(end)} for id, end in self.subs.items()))]
            case m.Ping():
                return [m.Ok(req)]
            case m.Replay(_, _, position, _, limit):
                names = list(self.log)[position or 0 :][:limit]
                events = [m.Replayed(req, self.log[id], msgspec.Raw(b'{"id":"%b"}' % id.encode())) for id in names]
                return [*events, m.Ok(req)]
        raise AssertionError(message)

    def publish(self, id, now):
        """The position; a NOTIFY for every subscription, the first time."""
        if id not in self.log:
            self.log[id] = len(self.log)
            for ordinal, (sub_id, end) in enumerate(self.subs.items(), 1):
                if now < end:
                    nid = self.log[id] * 2**20 + ordinal
                    self.mail[nid] = m.Notify(nid, sub_id, msgspec.Raw(b'{"id":"%b"}' % id.encode()), at(now))
        return self.log[id]

    def push(self):
        fresh = [nid for nid in sorted(self.mail) if nid not in self.sent][: max(0, self.room - len(self.sent))]
        self.sent += fresh
        return [self.mail[nid] for nid in fresh]

    def expire(self, sub_id, notice):
        del self.subs[sub_id]
        self.notices[notice] = m.SubCancelled(notice, (sub_id,))


class World:
    """An agent, a broker, a line between them, and a virtual clock."""

    def __init__(self, agent, broker, rng, delay=0.01, up=True):
        self.agent, self.broker, self.rng, self.delay, self.up = agent, broker, rng, delay, up
        self.now, self.order, self.line = 0.0, 0, 0
        self.agenda, self.timers = [], {}
        self.facts, self.delivered, self.kept = [], [], {}
        self.repeat = 0.0
        self.alive = True

    def start(self, **saved):
        self.stimulate(machine.Started((), saved))

    def ask(self, request):
        self.stimulate(machine.Asked(request))

    def stimulate(self, stimulus):
        for effect in self.agent.handle(stimulus, self.now, self.rng):
            self.carry_out(effect)

    def carry_out(self, effect):
        match effect:
            case machine.Send(_, messages):
                self.later(self.delay, "to broker", (self.line, messages))
            case machine.SetTimer(timer, after):
                self.timers[timer] = self.order
                self.later(after, "timer", (timer, self.order))
            case machine.CancelTimer(timer):
                self.timers.pop(timer, None)
            case machine.Deliver(notification):
                self.delivered.append(notification)
            case machine.Persist(key, value):
                self.kept[key] = value
            case machine.Report(fact):
                self.facts.append(fact)
                if isinstance(fact, words.Dial):
                    self.later(self.delay, "dialled", None)
                elif isinstance(fact, words.HangUp):
                    self.line += 1

    def later(self, after, what, detail):
        heapq.heappush(self.agenda, (self.now + after, self.order, what, detail))
        self.order += 1

    def run(self, until):
        while self.agenda and self.agenda[0][0] <= until:
            self.now, _, what, detail = heapq.heappop(self.agenda)
            self.step(what, detail)
        self.now = until

    def step(self, what, detail):
        if what == "timer":
            timer, order = detail
            if self.timers.get(timer) == order:
                del self.timers[timer]
                self.stimulate(machine.TimerFired(timer))
        elif what == "dialled":
            self.line += 1
            self.stimulate(machine.LinkUp("service") if self.up else machine.LinkDown("service"))
        elif what == "to broker" and detail[0] == self.line:
            self.answer(self.broker.receive(detail[1], self.now))
        elif what == "to agent" and detail[0] == self.line:
            self.stimulate(machine.Received("service", detail[1]))

    def answer(self, messages):
        """Some notifications come twice, and frames are cut anywhere between messages."""
        out = []
        for message in messages:
            out.append(message)
            if isinstance(message, m.Notify) and self.rng.random() < self.repeat:
                out.append(message)
        if out:
            self.later(self.delay, "to agent", (self.line, out))

    def nudge(self):
        """Somebody else published: what there is for the agent goes out."""
        if self.agent.session.state == "connected":
            self.answer(self.broker.push())

    def cut(self):
        self.line += 1
        self.stimulate(machine.LinkDown("service"))

    def answers(self):
        return {fact.ref: fact.answer for fact in self.facts if isinstance(fact, words.Answered)}

    def take_all(self):
        self.ask(words.Took([one.nid for one in self.delivered]))

    def heard(self, kind):
        return [fact for fact in self.facts if isinstance(fact, kind)]
