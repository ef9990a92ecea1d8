"""The driver of machines on asyncio, as the simulator drives them in a heap (``recado.protocols.machine``).

A ``Driver`` runs one machine. Whoever owns it tells it what happened; the machine takes its step at once, so a request
that makes no sense raises to whoever asked. Effects are carried out in the order in which they came, by call-backs: to
the sockets below the machine and to the application above it. A call-back may tell the driver more: that step is taken
at once, and its effects wait behind those that are there already.

Errors are told once: what a call-back raises goes to the loop's exception handler, and the effects that follow are
carried out all the same; what the machine raises for a stimulus goes to whoever told the driver of it.

Timers of one driver, or of many that share a ``Timers``, are one timer of the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from heapq import heapify, heappop, heappush
from random import SystemRandom
from typing import Any

from recado.protocols.machine import (
    Asked,
    CancelTimer,
    Connect,
    Deliver,
    Disconnect,
    Effect,
    Machine,
    Persist,
    Report,
    Rng,
    Send,
    SendFailed,
    SetTimer,
    Stimulus,
    TimerFired,
    TimerKey,
)

_EARLY_SECONDS = 1e-6
"""A loop may wake up a little before the instant that it was asked for."""
_CHANCE = SystemRandom()


class Timers:
    """Any number of timers on one timer of the loop.

    A heap holds at most one entry of use for a key. Setting a timer to a later instant, or cancelling it, leaves the
    entry where it is: it comes up, and is dropped or put back. So timers that are moved all the time cost little.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self._queued: dict[Hashable, float] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._entries = 0
        self._handle: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: Hashable, after_seconds: float, call: Callable[[], None]) -> None:
        """Call ``call`` once after so long; it replaces a timer of this key."""
        at = self._loop.time() + after_seconds
        self._due[key] = at, call
        queued = self._queued.get(key)
        if queued is None or at < queued:
            self._queue(key, at)

    def cancel(self, key: Hashable) -> None:
        self._due.pop(key, None)
        if len(self._heap) > 64 + 4 * len(self._due):
            self._rebuild()

    def close(self) -> None:
        """No timer fires any more."""
        self._due.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _queue(self, key: Hashable, at: float) -> None:
        self._queued[key] = at
        self._entries += 1
        heappush(self._heap, (at, self._entries, key))
        if self._heap[0][2] == key:
            self._wake()

    def _rebuild(self) -> None:
        """Entries of cancelled timers stay until their time comes; too many of them are thrown out at once."""
        self._heap = [(at, number, key) for number, (key, (at, _)) in enumerate(self._due.items(), self._entries + 1)]
        self._entries += len(self._heap)
        self._queued = {key: at for at, _, key in self._heap}
        heapify(self._heap)

    def _wake(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_at(self._heap[0][0], self._fire)

    def _fire(self) -> None:
        self._handle = None
        now = self._loop.time() + _EARLY_SECONDS
        while self._heap and self._heap[0][0] <= now:
            queued, _, key = heappop(self._heap)
            if self._queued.get(key) != queued:
                continue  # an earlier entry of this key came before it
            del self._queued[key]
            due = self._due.get(key)
            if due is None:
                continue
            if due[0] > now:
                self._queue(key, due[0])
                continue
            del self._due[key]
            try:
                due[1]()
            except Exception as error:  # noqa: BLE001  # one timer that fails must not stop the others
                self._loop.call_exception_handler({"message": f"the timer {key!r}", "exception": error})
        if self._heap and self._handle is None:
            self._wake()


def _refuse(*_: Any) -> None:
    raise TypeError("the machine wants something that nothing here can carry out")


class Driver:
    """Runs ``machine``; the other arguments say where its effects lead.

    ``send(receiver, message)`` sends or queues a message, and returns False if nothing leads there: the machine is told
    SendFailed. ``deliver(notification)``, ``report(fact)``, ``persist(key, value)``, ``broadcast(message)``,
    ``connect(peer, address)`` and ``disconnect(peer)`` are needed only for a machine that wants them. A ``persist``
    whose value must be safe before later effects go out calls ``hold``, and ``release`` when it is.

    ``clock`` gives the machine's ``now``, by default the time of the loop. ``observe(stimulus, effects, now)`` is
    called for every step, before its effects are carried out. ``name`` is for error messages.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        send: Callable[[Any, Any], bool],
        deliver: Callable[[Any], None] | None = None,
        report: Callable[[Any], None] | None = None,
        persist: Callable[[str, Any], None] | None = None,
        broadcast: Callable[[Any], None] | None = None,
        connect: Callable[[Any, str], None] | None = None,
        disconnect: Callable[[Any], None] | None = None,
        clock: Callable[[], float] | None = None,
        rng: Rng = _CHANCE,
        timers: Timers | None = None,
        observe: Callable[[Stimulus, Sequence[Effect], float], None] | None = None,
        name: str = "",
    ) -> None:
        self.machine, self._name = machine, name or type(machine).__name__
        self._loop = asyncio.get_running_loop()
        self._handle, self._send = machine.handle, send
        self._deliver, self._report = deliver or _refuse, report or _refuse
        self._persist, self._broadcast = persist or _refuse, broadcast or _refuse
        self._connect, self._disconnect = connect or _refuse, disconnect or _refuse
        self._rng, self._observe = rng, observe
        self._clock = clock or self._loop.time
        self._shared = timers is not None
        self._timers = timers if timers is not None else Timers()
        self._set: dict[TimerKey, Callable[[], None]] = {}
        self._waiting: deque[Effect] = deque()
        self._held: list[Effect] = []
        self._failed: deque[SendFailed] = deque()
        self._busy = self._holding = self._closed = False

    @property
    def now(self) -> float:
        return self._clock()

    @property
    def timers(self) -> tuple[TimerKey, ...]:
        """Those that are set."""
        return tuple(self._set)

    def tell(self, stimulus: Stimulus) -> None:
        """The machine takes a step. Raises what the machine raises; then there are no effects. Not after ``close``."""
        if self._closed:
            return
        now = self._clock()
        effects = self._handle(stimulus, now, self._rng)
        if self._observe is not None:
            self._observe(stimulus, effects, now)
        if self._busy:
            self._waiting.extend(effects)
        elif effects:
            self._carry_out(effects)

    def ask(self, request: Any) -> None:
        self.tell(Asked(request))

    def hold(self) -> None:
        """Carry out nothing more, until ``release``, but what is to be persisted: one commit may serve many steps."""
        self._holding = True

    def release(self) -> None:
        held, self._held, self._holding = self._held, [], False
        if self._busy:
            self._waiting.extendleft(reversed(held))
        else:
            self._carry_out(held)

    def close(self) -> None:
        """No timer fires any more, and the machine is told nothing more. Effects that wait are carried out."""
        self._closed = True
        for timer in list(self._set):
            self._cancel(timer)
        if not self._shared:
            self._timers.close()

    # -- effects

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """These, then those of the steps that they lead to, then what could not be sent."""
        waiting = self._waiting
        self._busy = True
        try:
            for effect in effects:
                self._do(effect)
            while waiting or self._failed:
                while waiting:
                    self._do(waiting.popleft())
                if self._failed:
                    self._tell_failed(self._failed.popleft())
        finally:
            self._busy = False

    def _do(self, effect: Effect) -> None:
        if self._holding and not isinstance(effect, Persist):
            self._held.append(effect)
            return
        try:
            if isinstance(effect, Send):
                if not self._send(effect.receiver, effect.message):
                    self._failed.append(SendFailed(effect.receiver, effect.message))
            elif isinstance(effect, Deliver):
                self._deliver(effect.notification)
            elif isinstance(effect, Report):
                self._report(effect.fact)
            elif isinstance(effect, SetTimer):
                self._set_timer(effect.timer, effect.after_seconds)
            elif isinstance(effect, CancelTimer):
                self._cancel(effect.timer)
            elif isinstance(effect, Persist):
                self._persist(effect.key, effect.value)
            elif isinstance(effect, Connect):
                self._connect(effect.peer, effect.address)
            elif isinstance(effect, Disconnect):
                self._disconnect(effect.peer)
            else:
                self._broadcast(effect.message)
        except Exception as error:  # noqa: BLE001  # the effects that follow are owed all the same
            what = effect.fact if isinstance(effect, Report) else effect
            self._tell_loop(type(what).__name__, error)

    def _tell_failed(self, failed: SendFailed) -> None:
        try:
            self.tell(failed)
        except Exception as error:  # noqa: BLE001  # nobody waits for it
            self._tell_loop("SendFailed", error)

    def _set_timer(self, timer: TimerKey, after_seconds: float) -> None:
        if self._closed:
            return
        call = self._set.get(timer)
        if call is None:
            call = self._set[timer] = lambda: self._fire(timer)
        self._timers.set((id(self), timer), after_seconds, call)

    def _cancel(self, timer: TimerKey) -> None:
        if self._set.pop(timer, None) is not None:
            self._timers.cancel((id(self), timer))

    def _fire(self, timer: TimerKey) -> None:
        del self._set[timer]
        self.tell(TimerFired(timer))

    def _tell_loop(self, what: str, error: Exception) -> None:
        self._loop.call_exception_handler(
            {"message": f"unexpected error in {what} of {self._name}", "exception": error}
        )
