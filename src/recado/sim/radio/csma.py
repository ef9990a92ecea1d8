"""The channel of IEEE 802.11b with its faults: stations listen before they speak, and collide all the same.

It follows the distributed coordination function as ns-2 has it:

- A station that wants to send draws a number of slots up to its contention window, and waits until the channel has been
  free for ``DIFS`` and then for these slots. The wait stops while the channel is busy and goes on when it has been free
  for ``DIFS``. After every transmission it draws again.
- A transmission is understood within ``range_metres`` and noticed within ``sense_metres``. Where two overlap, the first
  survives if it is ``CAPTURE`` times stronger than the other; else both are lost there. A station that hears
  something that it does not understand waits ``EIFS`` after it.
- A broadcast is sent once, at the basic rate, and nobody acknowledges it.
- A message to one receiver is preceded by a request (RTS) and its answer (CTS), which tell all who hear either of them
  how long the channel is taken, and it is acknowledged (ACK). Without an answer the window doubles and it is tried
  again: ``SHORT_TRIES`` requests, ``LONG_TRIES`` transmissions of the message; then the sender is told that it failed.
- Messages wait in a queue of ``queue`` places; what finds it full is dropped, counted, and nobody is told.
- With ``arp``, a station asks for a neighbour's address before its first message to it, and the neighbour answers. One
  message waits for an answer, as in ns-2: another one to the same neighbour takes its place.

Every signal needs ``PROPAGATION_SECONDS`` to everybody, whatever the distance, so stations that begin in the same slot
cannot hear each other in time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Literal, TypeAlias

import msgspec

from recado.protocols.machine import NodeId
from recado.sim.kernel import SimulationError, Transmission
from recado.sim.network import Place
from recado.sim.radio.channel import ClassOf, Radio
from recado.sim.radio.field import Field
from recado.sim.radio.signal import RANGE_METRES, SENSE_METRES, dbm
from recado.sim.radio.sleep import ALWAYS_AWAKE, Sleep

SLOT_SECONDS = 20e-6
SIFS_SECONDS = 10e-6
DIFS_SECONDS = SIFS_SECONDS + 2 * SLOT_SECONDS
PLCP_SECONDS = 192e-6
"""Preamble and header of the physical layer, 192 bits at 1 Mb/s, before every frame."""
PROPAGATION_SECONDS = 1e-6
LINK_SECONDS = 25e-6
"""What the link layer of a station needs for a message, down and up. So who answers a message at once does not count
in step with those who waited for its end."""
LEAST_WINDOW, MOST_WINDOW = 31, 1023
SHORT_TRIES, LONG_TRIES = 7, 4
CAPTURE = 10.0
HEADER_BYTES, RTS_BYTES, CTS_BYTES, ACK_BYTES = 34, 20, 14, 14
"""The header of a message has four addresses, as in ns-2, and a checksum."""
ARP_BYTES = 28
KEPT_NUMBERS = 64
"""Of so many senders a station remembers the last message, to know a repeated one."""

FrameKind: TypeAlias = Literal["broadcast", "data", "rts", "cts", "ack", "arp"]


class Csma(msgspec.Struct, frozen=True, kw_only=True):
    """What can be set of the channel."""

    basic_bits_per_second: float = 1e6
    """Of broadcasts, requests and answers."""
    data_bits_per_second: float = 11e6
    sense_metres: float = SENSE_METRES
    queue: int = 50
    arp: bool = False
    rts: bool = True
    """Without it, a message to one receiver is sent at once and only acknowledged."""

    def __post_init__(self) -> None:
        if not (self.basic_bits_per_second > 0 and self.data_bits_per_second > 0 and self.queue > 0):
            raise SimulationError("rates of a channel are more than 0, and its queue has a place at least")


class _Packet:
    """A message of the network, or a question or answer of address resolution, on its way through a station."""

    __slots__ = ("kind", "number", "receiver", "seconds", "size", "transmission")

    def __init__(
        self, number: int, kind: FrameKind, receiver: NodeId | None, size: int, transmission: Transmission | None
    ) -> None:
        self.number, self.kind, self.receiver, self.size, self.transmission = number, kind, receiver, size, transmission
        self.seconds = 0.0


class _Frame:
    """What is on the air; ``reserved`` is how long the channel is taken after it."""

    __slots__ = ("end", "kind", "packet", "receiver", "reserved", "seconds", "sender")

    def __init__(
        self,
        kind: FrameKind,
        sender: _Station,
        receiver: NodeId | None,
        seconds: float,
        *,
        reserved: float = 0.0,
        packet: _Packet | None = None,
    ) -> None:
        self.kind, self.sender, self.receiver, self.seconds = kind, sender, receiver, seconds
        self.reserved, self.packet, self.end = reserved, packet, 0.0


class _Station:
    """A node's end of the channel.

    ``ticket`` numbers what the station waits for: an alarm with an older one is void. ``slots`` is what is left to
    count down, None when there is nothing to wait for; ``counts_from`` is when counting began, None while the channel
    is busy.
    """

    __slots__ = (
        "awaits", "counts_from", "id", "known", "last_numbers", "long_tries", "nav", "packet", "queue", "reach", "rx",
        "rx_begin", "rx_clean", "rx_end", "rx_watts", "short_tries", "slots", "ticket", "tx_end", "version", "waiting",
        "window",
    )  # fmt: skip

    def __init__(self, node: NodeId) -> None:
        self.id = node
        self.queue: deque[_Packet] = deque()
        self.packet: _Packet | None = None
        self.window, self.short_tries, self.long_tries = LEAST_WINDOW, 0, 0
        self.slots: int | None = None
        self.counts_from: float | None = None
        self.ticket = 0
        self.awaits: FrameKind | None = None
        self.nav = self.tx_end = self.rx_end = self.rx_begin = -1.0
        self.rx: _Frame | None = None
        self.rx_clean, self.rx_watts = False, 0.0
        self.last_numbers: dict[NodeId, int] = {}
        self.known: dict[NodeId, None] = {}
        """The neighbours whose addresses it knows, and"""
        self.waiting: dict[NodeId, _Packet] = {}
        """what waits for those that it has asked for."""
        self.reach: list[tuple[_Station, float, bool]] = []
        self.version = -1

    def busy_until(self) -> float:
        return max(self.rx_end, self.nav, self.tx_end)


class CsmaRadio(Radio):
    """``frames`` counts what was on the air, by kind; ``dropped`` and ``failed`` what never got across."""

    def __init__(
        self,
        places: Mapping[NodeId, Place],
        rng: Random,
        range_metres: float = RANGE_METRES,
        settings: Csma | None = None,
        *,
        class_of: ClassOf | None = None,
        sleep: Sleep = ALWAYS_AWAKE,
    ) -> None:
        super().__init__(places, range_metres, class_of, sleep)
        self.settings = settings or Csma()
        self._sensed = Field(places, max(self.settings.sense_metres, range_metres))
        self._rng = rng
        self._stations: dict[NodeId, _Station] = {}
        self._numbers = 0
        self.frames: dict[str, int] = dict.fromkeys(("broadcast", "data", "rts", "cts", "ack", "arp"), 0)
        self.collisions = 0
        """Receptions within range that were lost to another transmission, or to the station's own."""
        self.repeats = self.dropped = self.failed = 0
        basic = self.settings.basic_bits_per_second
        self._rts, self._cts, self._ack = (
            PLCP_SECONDS + 8 * size / basic for size in (RTS_BYTES, CTS_BYTES, ACK_BYTES)
        )
        self._eifs = SIFS_SECONDS + DIFS_SECONDS + self._ack

    def move(self, node: NodeId, place: Place) -> None:
        super().move(node, place)
        self._sensed.move(node, place)

    def move_all(self, places: Mapping[NodeId, Place]) -> None:
        super().move_all(places)
        self._sensed.move_all(places)

    # -- messages come from the node

    def carry(self, transmission: Transmission, now: float) -> bool:
        station = self._station(transmission.sender.id)
        receiver, size = transmission.receiver, transmission.size_bytes
        if receiver is not None and receiver not in self.places:
            raise SimulationError(f"node {receiver!r} is nowhere; give it a place")
        packet = self._make_packet("broadcast" if receiver is None else "data", receiver, size, transmission)
        if receiver is not None and self.settings.arp and receiver not in station.known:
            if receiver in station.waiting:
                self.dropped += 1
            station.waiting[receiver] = packet
            question = self._make_packet("arp", None, ARP_BYTES, None)
            question.transmission = transmission  # whose receiver is asked for
            self._enqueue(station, question, now)
            return True
        return self._enqueue(station, packet, now)

    def _make_packet(
        self, kind: FrameKind, receiver: NodeId | None, size: int, transmission: Transmission | None
    ) -> _Packet:
        self._numbers += 1
        packet = _Packet(self._numbers, kind, receiver, size, transmission)
        rate = self.settings.basic_bits_per_second if receiver is None else self.settings.data_bits_per_second
        packet.seconds = PLCP_SECONDS + 8 * (HEADER_BYTES + size) / rate
        return packet

    def _enqueue(self, station: _Station, packet: _Packet, now: float) -> bool:
        if station.packet is None:
            station.packet = packet
            if station.slots is None:  # else it waits for those that are left of the last message
                self.simulation.at(now + LINK_SECONDS, lambda: self._back_off(station, self.simulation.now))
            return True
        if len(station.queue) >= self.settings.queue:
            self.dropped += 1
            return False
        station.queue.append(packet)
        return True

    def _take_next(self, station: _Station, now: float) -> None:
        """The next message of the queue; while slots of the last one are left, it waits for them as well."""
        if not self._is_alive(station):
            station.queue.clear()
        if not station.queue:
            station.packet = None
            return
        station.packet = station.queue.popleft()
        if station.slots is None:
            self._back_off(station, now)

    # -- waiting for the channel

    def _back_off(self, station: _Station, now: float) -> None:
        station.slots = self._rng.randrange(station.window + 1)
        self._count_down(station, now)

    def _count_down(self, station: _Station, now: float) -> None:
        """Count from when the channel has been free for DIFS; if it is busy, look again when it may be free."""
        assert station.slots is not None
        station.ticket += 1
        ticket, free = station.ticket, station.busy_until()
        if not self.sleep.always:
            free = max(free, self.sleep.next_awake(station.id, max(now, free)))
        if free > now:
            station.counts_from = None
            self.simulation.at(free, lambda: self._look_again(station, ticket))
        else:
            station.counts_from = now + DIFS_SECONDS
            self.simulation.at(
                station.counts_from + station.slots * SLOT_SECONDS, lambda: self._counted(station, ticket)
            )

    def _look_again(self, station: _Station, ticket: int) -> None:
        if ticket == station.ticket:
            self._count_down(station, self.simulation.now)

    def _hold(self, station: _Station, counts_from: float, now: float) -> None:
        """The channel got busy: keep the slots that are left."""
        assert station.slots is not None
        station.slots -= max(0, int((now - counts_from) / SLOT_SECONDS))
        self._count_down(station, now)

    def _counted(self, station: _Station, ticket: int) -> None:
        if ticket != station.ticket:
            return
        station.slots = station.counts_from = None
        packet, now = station.packet, self.simulation.now
        if packet is None:
            return
        if not self._is_alive(station):
            self._take_next(station, now)
        elif packet.receiver is None:
            self._send(_Frame(packet.kind, station, None, packet.seconds, packet=packet))
            self._alarm(station, packet.seconds, "broadcast")
        elif self.settings.rts:
            hop = SIFS_SECONDS + PROPAGATION_SECONDS
            reserved = 3 * hop + self._cts + packet.seconds + self._ack
            self._send(_Frame("rts", station, packet.receiver, self._rts, reserved=reserved, packet=packet))
            self._alarm(station, self._rts + hop + self._cts + SLOT_SECONDS, "cts")
        else:
            self._send_data(station, packet)

    def _send_data(self, station: _Station, packet: _Packet) -> None:
        hop = SIFS_SECONDS + PROPAGATION_SECONDS
        frame = _Frame("data", station, packet.receiver, packet.seconds, reserved=hop + self._ack, packet=packet)
        self._send(frame)
        self._alarm(station, packet.seconds + hop + self._ack + SLOT_SECONDS, "ack")

    def _alarm(self, station: _Station, seconds: float, awaits: FrameKind) -> None:
        """What the station waits for now, and when it gives that up."""
        station.ticket += 1
        ticket, station.awaits = station.ticket, awaits
        self.simulation.at(
            self.simulation.now + seconds + PROPAGATION_SECONDS, lambda: self._nothing_came(station, ticket)
        )

    def _nothing_came(self, station: _Station, ticket: int) -> None:
        if ticket != station.ticket:
            return
        awaited, station.awaits = station.awaits, None
        if awaited == "broadcast":
            self._finish(station)
            return
        if awaited == "cts":
            station.short_tries += 1
        else:
            station.long_tries += 1
        packet = station.packet
        assert packet is not None
        if station.short_tries >= SHORT_TRIES or station.long_tries >= LONG_TRIES:
            self.failed += 1
            if packet.transmission is not None and packet.kind == "data":
                self.simulation.fail(packet.transmission)
            self._finish(station)
            return
        self.repeats += 1
        station.window = min(2 * station.window + 1, MOST_WINDOW)
        self._back_off(station, self.simulation.now)

    def _finish(self, station: _Station) -> None:
        """A message is done with, one way or the other; a pause of some slots follows in any case."""
        station.window, station.short_tries, station.long_tries = LEAST_WINDOW, 0, 0
        station.packet = None
        now = self.simulation.now
        self._back_off(station, now)
        self._take_next(station, now)

    # -- on the air

    def _send(self, frame: _Frame) -> None:
        station, now = frame.sender, self.simulation.now
        resolves = frame.kind == "data" and frame.packet is not None and frame.packet.kind == "arp"
        self.frames["arp" if resolves else frame.kind] += 1
        if station.rx is not None and station.rx_clean:
            station.rx_clean = False
            self.collisions += 1
        begin = now + PROPAGATION_SECONDS
        frame.end = begin + frame.seconds
        station.tx_end = frame.end
        if station.counts_from is not None:  # an answer, while it waits for a slot of its own
            self._hold(station, station.counts_from, now)
        if self.listener is not None:
            self.listener.transmitted(station.id, frame.seconds)
        reach = self._reach(station)
        self.simulation.at(begin, lambda: self._begin(frame, reach))

    def _reach(self, station: _Station) -> list[tuple[_Station, float, bool]]:
        """Who notices a station's signals, how strongly, and whether they can be understood."""
        if station.version != self._sensed.version:
            station.version = self._sensed.version
            station.reach = []
            for node, signal in self._sensed.hearers(station.id).items():
                watts = 10 ** (signal / 10) / 1000
                station.reach.append((self._station(node), watts, node in self.field.hearers(station.id)))
        return station.reach

    def _begin(self, frame: _Frame, reach: list[tuple[_Station, float, bool]]) -> None:
        """A signal reaches all stations around."""
        now, end = self.simulation.now, frame.end
        asleep = self._sleeping_stations(reach, now)
        for station, watts, audible in reach:
            if station in asleep:
                continue
            if station.rx_end <= now:
                if station.rx is not None:
                    self._settle(station)
                station.rx, station.rx_begin, station.rx_end, station.rx_watts = frame, now, end, watts
                station.rx_clean = audible and station.tx_end <= now
                if audible and not station.rx_clean:
                    self.collisions += 1
            elif station.rx_watts >= CAPTURE * watts:
                station.nav = max(station.nav, end + self._eifs)
                self.collisions += audible
            else:
                self.collisions += station.rx_clean + audible
                station.rx_clean = False
                if end > station.rx_end:
                    station.rx, station.rx_end, station.rx_watts = frame, end, watts
            counts_from = station.counts_from
            if counts_from is not None:
                self._hold(station, counts_from, now)
        self.simulation.at(end, lambda: self._end(frame, reach))

    def _sleeping_stations(self, reach: list[tuple[_Station, float, bool]], now: float) -> set[_Station]:
        """Those who do not listen now; one in the midst of an exchange stays awake for it."""
        if self.sleep.always:
            return set()
        awake = self.sleep.is_awake
        return {station for station, _, _ in reach if station.awaits is None and not awake(station.id, now)}

    def _end(self, frame: _Frame, reach: list[tuple[_Station, float, bool]]) -> None:
        """The signal is over: who received it whole?"""
        now = self.simulation.now
        heard: list[tuple[_Station, float]] = []
        for station, watts, _ in reach:
            if station.rx is frame:
                self._settle(station)
                if not station.rx_clean:
                    if station.tx_end <= now:
                        self._reserve(station, now + self._eifs, now)
                elif self._is_alive(station) and (not self.obstacles or self.passes(frame.sender.id, station.id)):
                    heard.append((station, watts))
        if frame.kind == "broadcast" and frame.packet is not None and frame.packet.transmission is not None:
            heard_at = now + LINK_SECONDS
            self.simulation.hear(
                frame.packet.transmission, [(station.id, heard_at, dbm(watts)) for station, watts in heard]
            )
            return
        for station, _ in heard:
            if frame.receiver is None or frame.receiver == station.id:
                self._receive(station, frame, now)
            elif frame.reserved:
                self._reserve(station, now + frame.reserved, now)

    def _reserve(self, station: _Station, until: float, now: float) -> None:
        """The channel is taken for a while, as far as this station knows; it may have begun to count already."""
        station.nav = max(station.nav, until)
        if station.counts_from is not None:
            self._hold(station, station.counts_from, now)

    def _settle(self, station: _Station) -> None:
        """A station has nothing on its ear any more: account for the time it had."""
        station.rx = None
        if self.listener is not None:
            self.listener.received(station.id, station.rx_end - station.rx_begin)

    def _receive(self, station: _Station, frame: _Frame, now: float) -> None:
        """A frame for this station, or a question to all."""
        sender, packet = frame.sender, frame.packet
        match frame.kind:
            case "rts":
                if station.awaits is None:
                    reserved = frame.reserved - self._cts - SIFS_SECONDS - PROPAGATION_SECONDS
                    answer = _Frame("cts", station, sender.id, self._cts, reserved=reserved)
                    self.simulation.at(now + SIFS_SECONDS, lambda: self._answer(answer))
            case "cts":
                if station.awaits == "cts" and station.packet is not None and station.packet.receiver == sender.id:
                    station.ticket += 1
                    station.short_tries = 0
                    asked = station.packet
                    self.simulation.at(now + SIFS_SECONDS, lambda: self._send_data(station, asked))
            case "data":
                ack = _Frame("ack", station, sender.id, self._ack)
                self.simulation.at(now + SIFS_SECONDS, lambda: self._send(ack))
                assert packet is not None
                if self._is_new(station, sender.id, packet.number):
                    self._hand_over(station, sender.id, packet, now)
            case "ack":
                if station.awaits == "ack" and station.packet is not None and station.packet.receiver == sender.id:
                    station.ticket += 1
                    station.awaits = None
                    self._finish(station)
            case "arp":
                self._answer_question(station, frame, now)

    def _answer(self, frame: _Frame) -> None:
        """An answer to a request, unless the channel is taken or the station has begun something else."""
        station, now = frame.sender, self.simulation.now
        if station.busy_until() <= now and station.awaits is None and self._is_alive(station):
            self._send(frame)

    def _is_new(self, station: _Station, sender: NodeId, number: int) -> bool:
        """Is a message no repetition of the sender's last one?"""
        numbers = station.last_numbers
        if numbers.get(sender) == number:
            return False
        numbers.pop(sender, None)
        numbers[sender] = number
        if len(numbers) > KEPT_NUMBERS:
            del numbers[next(iter(numbers))]
        return True

    def _hand_over(self, station: _Station, sender: NodeId, packet: _Packet, now: float) -> None:
        if packet.kind == "arp":
            self._learn(station, sender, now)
        elif packet.transmission is not None:
            self.simulation.arrive(packet.transmission, now + LINK_SECONDS)

    # -- address resolution

    def _answer_question(self, station: _Station, frame: _Frame, now: float) -> None:
        packet = frame.packet
        self._learn(station, frame.sender.id, now)  # all who hear a question know who asked
        if packet is not None and packet.transmission is not None and packet.transmission.receiver == station.id:
            self._enqueue(station, self._make_packet("arp", frame.sender.id, ARP_BYTES, None), now)

    def _learn(self, station: _Station, neighbour: NodeId, now: float) -> None:
        station.known[neighbour] = None
        packet = station.waiting.pop(neighbour, None)
        if packet is not None:
            self._enqueue(station, packet, now)

    # -- nodes

    def _station(self, node: NodeId) -> _Station:
        station = self._stations.get(node)
        if station is None:
            if node not in self.places:
                raise SimulationError(f"node {node!r} is nowhere; give it a place")
            station = self._stations[node] = _Station(node)
        return station

    def _is_alive(self, station: _Station) -> bool:
        node = self.simulation.nodes.get(station.id)
        return node is not None and node.alive
