"""The gateway: a sink of the sensor network that is also a client of an event service.

**Subscriptions go down.** Every few seconds the gateway reads the service's subscriptions, of everybody, and works out
which filters the network has to know for them: what another one covers is left out, and what can be merged without
taking more is merged. These it makes at its node, and ends those that nobody needs any more. An id is worked out from
its filter, so the gateway keeps no list of its own: whichever side starts again, the next look sets it right.

**Samples go up.** The node numbers what it is notified of. The gateway takes what is new and publishes it at the
service, with the ``node`` that published it and the ``hops`` that it came over as attributes, unless the sample has
attributes of these names itself. Only when the service has stored it does the gateway write down the number. If it is
killed in between it publishes a sample again, and the service, which knows it by its id, stores it once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from recado import files
from recado.client import connect
from recado.client.client import Client
from recado.client.errors import ClientError, NotAllowed, Refused, SessionEnded, Unreachable
from recado.client.http import HttpClient
from recado.client.urls import resolve
from recado.errors import EventError, RecadoError
from recado.filters.cost import check_filter
from recado.filters.covering import covers, merge, overlaps, satisfiable
from recado.filters.evaluate import names_of
from recado.filters.expression import format_expression, parse
from recado.filters.records import read_subscription
from recado.model.filter import And, Filter
from recado.model.limits import LIMITS
from recado.model.subscription import type_filter
from recado.overlay.client import ask
from recado.overlay.limits import OverlayError
from recado.radio.scene import SceneError

ADDED = frozenset(("node", "hops"))
"""Attributes that samples have only at the service, so that the network cannot filter by them."""
PREFIX = "gateway-"
PAUSE_SECONDS = 1.0
"""Before what failed is tried again."""
MOST_FILTERS = 64
"""When the network would need more of one type, it takes all events of the type."""
MOST_CHARS = 1_024
"""A longer filter is not made by merging: it travels in frames, and takes the memory of sensors."""

PASSING = frozenset((429, 500, 502, 503, 504, 507))
"""What a service answers that takes a sample later: it is full, busy or stopping, or this user publishes too fast."""

log = logging.getLogger("recado.radio")


# --- Which filters the network has to know ---------------------------------------------------------------------------


def network_filters(records: Iterable[Mapping[str, Any]], types: Iterable[str]) -> list[Filter]:
    """As few filters as cover what these subscriptions of a service can take of events of these types.

    Of a type that would need more than ``MOST_FILTERS`` everything is taken.
    """
    types = tuple(types)
    kept: dict[str, list[Filter]] = {one: [] for one in types}
    known: set[bytes] = set()
    for record in records:
        wish = _wish_of(record)
        if wish in known:
            continue
        known.add(wish)
        for one, wanted in _of_record(record, types):
            _add(kept[one], wanted)
            if len(kept[one]) > MOST_FILTERS:
                log.warning("more than %d filters for %s: the network is asked for all of it", MOST_FILTERS, one)
                kept[one] = [type_filter(one)]
    together: list[Filter] = []
    for found in kept.values():
        for wanted in found:
            _add(together, wanted)
    return together


def _wish_of(record: Mapping[str, Any]) -> bytes:
    """What the subscription takes, whoever made it."""
    members = ("filter", "filters", "syntax", "type", "semantic")
    return msgspec.json.encode({name: record[name] for name in members if name in record}, order="sorted")


def _of_record(record: Mapping[str, Any], types: tuple[str, ...]) -> list[tuple[str, Filter]]:
    """What it takes of each type; all of it if the network cannot evaluate its filter, or if it goes by meaning."""
    known = {name: record[name] for name in ("id", "filter", "filters", "syntax", "type") if name in record}
    try:
        subscription = read_subscription(msgspec.json.encode(known))
    except RecadoError as error:
        log.warning("subscription %r cannot be read here, so it takes all: %s", record.get("id"), error)
        return [(one, type_filter(one)) for one in types]
    if record.get("semantic"):
        return [(one, type_filter(one)) for one in types]
    fitting = [one for one in types if _fits(subscription.type, one)]
    if names_of(subscription.filter) & ADDED:
        return [(one, type_filter(one)) for one in fitting]
    found = [(one, And((type_filter(one), subscription.filter))) for one in fitting]
    return [
        (one, wanted if _is_taken(wanted) else type_filter(one))
        for one, wanted in found
        if satisfiable(wanted) is not False
    ]


def _is_taken(wanted: Filter, chars: int = LIMITS.filter_chars) -> bool:
    """Does a node take this filter? With the type in it, it can be larger than any that the service took."""
    text = format_expression(wanted)
    if len(text) > chars:
        return False
    try:
        check_filter(parse(text))
    except RecadoError:
        return False
    return True


def _fits(pattern: str, event_type: str) -> bool:
    return not pattern or overlaps(type_filter(pattern), type_filter(event_type)) is not False


def _add(kept: list[Filter], new: Filter) -> None:
    if any(covers(one, new) for one in kept):
        return
    kept[:] = [one for one in kept if not covers(new, one)]
    for number, one in enumerate(kept):
        merged = merge(one, new)
        if merged is not None and _is_taken(merged, MOST_CHARS):
            del kept[number]
            _add(kept, merged)
            return
    kept.append(new)


def id_of(text: str) -> str:
    """What the network's subscription with this filter is called."""
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:16]


# --- The gateway -----------------------------------------------------------------------------------------------------


class Place(msgspec.Struct):
    """How far samples of a start of the node are published."""

    start: str = ""
    number: int = 0


class Gateway:
    """``socket`` is the control socket of the node, ``service`` a URL as ``recado.connect`` takes it.

    ``types`` are the event types of the network; ``state`` is the file in which the gateway remembers its place.
    """

    def __init__(
        self, socket: Path, service: str | None, types: tuple[str, ...], state: Path, every_seconds: float = 2.0
    ) -> None:
        if not types:
            raise SceneError("which event types does the network publish? Name them with --type, or types in the scene")
        target = resolve(service)
        user = target.user or ("" if target.token else "gateway")
        self._service, self._target = service, msgspec.structs.replace(target, user=user)
        self._socket, self._types, self._state = socket, types, state
        self._every_seconds = every_seconds
        self._place = self._read_place()
        self.published = self.missed = self.refused = 0
        self.filters: tuple[str, ...] = ()
        self._wishes: frozenset[bytes] | None = None
        self._texts: tuple[str, ...] = ()

    async def run(self) -> None:
        """Until it is cancelled.

        A NotAllowed if the service does not let it list everybody's subscriptions, a SessionEnded if an operator, or
        another gateway of the same node, ended its session.
        """
        async with connect(
            self._service, user=self._target.user or None, device=f"{PREFIX}{self._socket.stem}", existing="leave",
            timeout=None, longest_wait=5.0,
        ) as client:  # fmt: skip
            down = asyncio.create_task(self._keep_synchronised())
            up = asyncio.create_task(self._carry(client))
            try:
                done, _ = await asyncio.wait((down, up), return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in (down, up):
                    task.cancel()
                await asyncio.gather(down, up, return_exceptions=True)

    # -- down

    async def _keep_synchronised(self) -> None:
        while True:
            try:
                await self.synchronise()
            except NotAllowed as error:
                raise NotAllowed(
                    f"{error}; a gateway has to see everybody's subscriptions: give it the token of an administrator, "
                    "made with: recado token add gateway --user gateway --admin"
                ) from None
            except (Unreachable, Refused, OverlayError) as error:
                log.warning("subscriptions stay as they are: %s", error)
            await asyncio.sleep(self._every_seconds)

    async def synchronise(self) -> None:
        """Let the node have the subscriptions that the service's ones need: new ones first, then old ones end."""
        texts = await asyncio.to_thread(self._list_filters)
        wanted = {id_of(text): text for text in texts}
        shown = await asyncio.to_thread(ask, self._socket, "show")
        there = [id for id in shown["machine"]["subscriptions"] if id.startswith(PREFIX)]
        refused = False
        for id, text in wanted.items():
            if id not in there:
                log.info("the network is asked for %s", text)
                record = {"id": id, "filter": text}
                try:
                    await asyncio.to_thread(ask, self._socket, "subscribe", subscription=record, follow=False)
                except OverlayError as error:  # the others are made all the same, and none ends
                    log.warning("the node does not take %s: %s", text, error)
                    refused = True
        for id in there:
            if id not in wanted and not refused:
                log.info("the network is no longer asked for %s", shown["machine"]["subscriptions"][id]["filter"])
                await asyncio.to_thread(ask, self._socket, "unsubscribe", id=id)
        self.filters = texts

    def _list_filters(self) -> tuple[str, ...]:
        """What the network has to know, worked out anew only if the subscriptions are others than before."""
        records = self._list()
        wishes = frozenset(map(_wish_of, records))
        if wishes != self._wishes:
            self._texts = tuple(format_expression(one) for one in network_filters(records, self._types))
            self._wishes = wishes
        return self._texts

    def _list(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        query: dict[str, Any] = {"user": "*"}
        with HttpClient(self._target) as http:
            while True:
                answer = http.call("GET", "/v1/subscriptions", query=query)
                found += answer["subscriptions"]
                if not answer.get("next"):
                    return found
                query["after"] = answer["next"]

    # -- up

    async def _carry(self, client: Client) -> None:
        while True:
            try:
                await self._carry_some(client)
            except (OverlayError, Unreachable) as error:
                log.warning("samples wait: %s", error)
                await asyncio.sleep(PAUSE_SECONDS)

    async def _carry_some(self, client: Client) -> None:
        answer = await asyncio.to_thread(
            ask, self._socket, "samples", after=self._place.number, start=self._place.start, wait_seconds=1.0
        )
        if answer["start"] != self._place.start:
            self._place = Place(answer["start"])  # the node has started anew, and counts from the beginning
        samples = answer["samples"]
        if not samples:
            return
        lost = samples[0]["number"] - self._place.number - 1
        if lost > 0:
            self.missed += lost
            log.warning("%d samples are lost: the node keeps only the last ones", lost)
        ours = [one for one in samples if any(id.startswith(PREFIX) for id in one["subscriptions"])]
        answers = await asyncio.gather(*(_publish(client, one) for one in ours), return_exceptions=True)
        done = samples[-1]["number"]
        waits: ClientError | None = None
        for sample, stored in zip(ours, answers, strict=True):
            if isinstance(stored, EventError) or (isinstance(stored, Refused) and stored.code not in PASSING):
                self.refused += 1
                log.warning("the service does not take sample %s: %s", sample["event"]["id"], stored)
            elif isinstance(stored, ClientError):
                done, waits = sample["number"] - 1, stored  # from here on once more; what is stored stays as it is
                break
            elif isinstance(stored, BaseException):
                raise stored
            else:
                self.published += 1
        if done > self._place.number:
            self._place.number = done
            files.replace(self._state, msgspec.json.encode(self._place))
        if waits is not None:
            raise waits if isinstance(waits, SessionEnded) else Unreachable(str(waits))

    def _read_place(self) -> Place:
        try:
            return msgspec.json.decode(self._state.read_bytes(), type=Place)
        except FileNotFoundError:
            return Place()
        except msgspec.DecodeError as error:
            raise SceneError(f"{self._state} is no state of a gateway: {error}") from None


async def _publish(client: Client, sample: Mapping[str, Any]) -> int:
    """What cannot be an event any more is an error of this sample alone, as what the service answers is."""
    return await client.publish_soon(event_of(sample))


def event_of(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample as the service gets it; the same every time, since the service compares contents."""
    added = {"node": sample["node"]} | ({} if sample["hops"] is None else {"hops": sample["hops"]})
    return {**added, **sample["event"]}
