"""The desk against the plain model, by random stories."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker.desk_model import Model
from recado.broker.constraints import Frequency
from recado.broker.core import Desk
from recado.broker.mailbox import Bounds
from recado.broker.state import Close, Push, Tell

START = datetime(2026, 11, 15, tzinfo=UTC)
DEVICES = st.sampled_from(["a", "b"])
IDS = st.sampled_from(["s1", "s2", "s3"])


class Leg:
    def __init__(self, twin):
        self.twin = twin
        self.got, self.told, self.closed = [], {}, None


class DeskMachine(RuleBasedStateMachine):
    @initialize(length=st.integers(1, 6), age=st.integers(5, 60))
    def begin(self, length, age):
        self.seconds, self.position = 0, 0
        self.model = Model(length, age, grace=30)
        bounds = Bounds(length, 2**20, timedelta(seconds=age))
        self.desk = Desk(bounds, grace=timedelta(seconds=30))
        self.legs = {}
        self.gaps, self.cancelled = {}, {}

    @property
    def now(self):
        return START + timedelta(seconds=self.seconds)

    def perform(self):
        for effect in self.desk.take_effects():
            if isinstance(effect, Push):
                assert len(effect.leg.got) + len(effect.notes) - effect.leg.got_acked <= effect.leg.twin.window
                effect.leg.got += [note.nid for note in effect.notes]
            elif isinstance(effect, Tell):
                for notice in effect.notices:
                    effect.leg.told[notice.id] = notice
                    if notice.is_gap:
                        assert notice.count == len(notice.nids)
                        self.gaps[notice.id] = dict.fromkeys(notice.nids, notice.reason)
                    else:
                        self.cancelled[notice.id] = notice.sub_ids
            else:
                assert isinstance(effect, Close)
                effect.leg.closed = effect.reason

    @rule(seconds=st.integers(0, 20))
    def wait(self, seconds):
        self.seconds += seconds

    @rule(
        id=IDS,
        scope=st.sampled_from(["", "", "a", "b"]),
        ttl=st.integers(1, 80),
        period=st.sampled_from([None, None, 7]),
    )
    def subscribe(self, id, scope, ttl, period):
        constraints = () if period is None else (Frequency(period, "seconds"),)
        self.desk.subscribe(
            "u",
            id,
            position=self.position,
            now=self.now,
            expires_at=self.now + timedelta(seconds=ttl),
            scope=scope,
            constraints=constraints,
        )
        self.model.subscribe(id, scope, self.seconds + ttl, period, self.position)
        self.model.subs[id].ordinal = self.desk.users["u"].standings[id].ordinal

    @rule(id=IDS, ttl=st.integers(1, 80))
    def renew(self, id, ttl):
        standing = self.desk.users["u"].standings.get(id) if "u" in self.desk.users else None
        assert (standing is not None) == (id in self.model.subs)
        if standing is None:
            return
        new = self.desk.renew(standing, self.now + timedelta(seconds=ttl), position=self.position, now=self.now)
        sub = self.model.subs[id]
        if sub.active and self.seconds < sub.expires:
            assert new is standing
            sub.expires = self.seconds + ttl
        else:
            self.model.subscribe(id, sub.scope, self.seconds + ttl, sub.period, self.position)
            self.model.subs[id].ordinal = new.ordinal

    @rule(id=IDS)
    def cancel(self, id):
        standing = self.desk.users["u"].standings.get(id) if "u" in self.desk.users else None
        if standing is not None:
            self.desk.cancel(standing, position=self.position, now=self.now)
            del self.model.subs[id]

    @rule()
    def keep(self):
        self.desk.forget_closed(self.position)
        self.desk.take_changes()

    @rule(count=st.integers(1, 4))
    def publish(self, count):
        """A few at once: the desk sends them together, and drops none that could have gone one by one."""
        for _ in range(count):
            found = list(self.desk.standings.values())
            self.desk.publish(self.position, b"{}", self.now, found)
            self.model.publish(self.position, self.seconds)
            self.position += 1
        self.desk.flush(self.now)
        self.perform()

    @rule(device=DEVICES, window=st.integers(1, 3))
    def attach(self, device, window):
        if device in self.legs:
            self.model.detach(device)
        old = self.legs.get(device)
        leg = self.legs[device] = Leg(None)
        leg.got_acked = 0
        # the model is told of a take-over as of a loss followed by a new leg
        leg.twin = self.model.attach(device, window, self.seconds)
        self.desk.attach("u", device, leg, window=window, now=self.now)
        self.perform()
        if old is not None:
            assert old.closed == "taken over"

    @rule(device=DEVICES, clean=st.booleans())
    def detach(self, device, clean):
        leg = self.legs.pop(device, None)
        if leg is not None:
            self.model.detach(device)
            if clean:
                self.desk.ended(leg)
            else:
                self.desk.lost(leg, self.now)
            self.perform()

    @rule(device=DEVICES, which=st.integers(0, 2), one=st.booleans())
    def acknowledge(self, device, which, one):
        leg = self.legs.get(device)
        if leg is None or which >= len(leg.twin.flying):
            return
        nid = leg.twin.flying[which]
        nids = [nid] if one else [n for n in leg.twin.flying if n <= nid]
        leg.got_acked += len(nids)
        if one:
            assert self.desk.acked_one(leg, nid) == 1
        else:
            assert self.desk.acked(leg, nid) == len(nids)
        self.perform()
        self.model.ack(leg.twin, nids)

    @rule(device=DEVICES, chosen=st.sets(st.integers(0, 5), max_size=4), strange=st.booleans())
    def acknowledge_some(self, device, chosen, strange):
        """Some of those on their way, in no order, and perhaps one that never was."""
        leg = self.legs.get(device)
        if leg is None:
            return
        nids = [nid for number, nid in enumerate(leg.twin.flying) if number in chosen]
        leg.got_acked += len(nids)
        assert self.desk.acked_apart(leg, [*reversed(nids), *([2**60] if strange else [])]) == len(nids)
        self.perform()
        self.model.ack(leg.twin, nids)

    @rule(device=DEVICES, window=st.integers(1, 6))
    def widen(self, device, window):
        leg = self.legs.get(device)
        if leg is not None:
            leg.twin.window = window
            self.desk.widen(leg, window)
            self.perform()
            self.model.pump()

    @rule(device=DEVICES)
    def confirm(self, device):
        leg = self.legs.get(device)
        if leg is not None:
            self.desk.noticed(leg, list(leg.told))

    @rule()
    def sweep(self):
        self.desk.sweep(self.position, self.now, timedelta(days=1))
        self.perform()
        self.model.sweep(self.seconds)

    @precondition(lambda self: self.legs)
    @rule(data=st.data())
    def purge(self, data):
        box = data.draw(st.sampled_from(["", "a", "b"]))
        if "u" in self.desk.users and box in self.desk.users["u"].boxes:
            count = self.desk.purge(self.desk.users["u"], box)
            assert count == len(self.model.boxes[box])
            for nid in list(self.model.boxes[box]):
                self.model.drop(box, nid, "purged")
            self.model.pump()
            self.perform()

    @invariant()
    def legs_got_the_same(self):
        for leg in getattr(self, "legs", {}).values():
            assert leg.got == leg.twin.got
            assert leg.got == sorted(set(leg.got))

    @invariant()
    def the_same_waits(self):
        if hasattr(self, "model") and "u" in self.desk.users:
            for device, box in self.desk.users["u"].boxes.items():
                waiting = {note.nid: (note.at - START).seconds for note in box.waiting()}
                assert waiting == self.model.boxes[device]
                assert box.length == len(waiting)
                assert box.bytes == sum(len(note.event) + 64 for note in box.waiting())
            boxes = self.desk.users["u"].boxes.values()
            assert self.desk.waiting.length == sum(box.length for box in boxes)
            assert self.desk.waiting.bytes == sum(box.bytes for box in boxes)

    @invariant()
    def what_was_dropped_is_told_or_about_to_be(self):
        if hasattr(self, "model"):
            known = dict(self.gaps)
            cancelled = dict(self.cancelled)
            for user in self.desk.users.values():
                for id, notice in user.notices.items():
                    if notice.is_gap:
                        known[id] = dict.fromkeys(notice.nids, notice.reason)
                    else:
                        cancelled[id] = notice.sub_ids
            told = [pair for gap in known.values() for pair in gap.items()]
            assert sorted(told) == sorted(self.model.dropped.items())
            assert sorted(id for ids in cancelled.values() for id in ids) == sorted(self.model.cancelled)


DeskMachine.TestCase.settings = settings(max_examples=120, stateful_step_count=50, deadline=None)
TestDeskAgainstModel = DeskMachine.TestCase
