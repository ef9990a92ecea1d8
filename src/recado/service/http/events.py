"""``POST /v1/events``: publish one event or many, in every form that CloudEvents gives them over HTTP.

| content-type | body |
|---|---|
| ``application/json`` | an event in the flat form or a CloudEvent; an array of them is a batch |
| ``application/cloudevents+json`` | a CloudEvent (structured mode) |
| ``application/cloudevents-batch+json`` | an array of CloudEvents |
| ``application/x-ndjson`` | an event a line |
| any, with ``ce-specversion`` | the event's data; its context stands in ``ce-`` headers (binary mode) |

The answer, 202, leaves when the events are on stable storage: all of them, or an error and none.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import msgspec
from starlette.responses import Response

from recado.errors import EventError
from recado.model.codec import parse_json, read_event, split_batch
from recado.model.event import Event
from recado.service.http.answers import json_answer
from recado.service.http.call import Call, ParameterError
from recado.service.http.problems import TooLargeError

JSON, CLOUDEVENT = "application/json", "application/cloudevents+json"
BATCH, LINES = "application/cloudevents-batch+json", "application/x-ndjson"
PUBLISHER = "x-publisher-id"
_NO_CONTEXT = ("ce-data", "ce-data_base64", "ce-datacontenttype")


async def publish(call: Call) -> Response:
    """Store events; the answer is their acknowledgement."""
    call.doors.check_open()
    binary = "ce-specversion" in call.request.headers
    if not binary:
        call.check_media(JSON, CLOUDEVENT, BATCH, LINES)
    raw = await call.body()
    single = binary or call.media == CLOUDEVENT or (call.media == JSON and raw.lstrip()[:1] != b"[")
    events = [_binary(call, raw)] if binary else _events(call, raw, single)
    events = [_attributed(event, call.request.headers.get(PUBLISHER)) for event in events]
    call.doors.check_publish(call.who, len(events))
    positions = await call.engine.publish(call.who, events)
    if single:
        return json_answer({"id": events[0].id, "position": positions[0], "notificationId": events[0].id}, 202)
    return json_answer({"count": len(events), "positions": list(positions), "ids": [event.id for event in events]}, 202)


def _events(call: Call, raw: bytes, single: bool) -> list[Event]:
    limits, most = call.doors.limits, call.doors.config.limits.batch_events
    if single:
        return [_event(call, raw)]
    if call.media == LINES:
        parts = [line for line in raw.split(b"\n") if line.strip()]
    else:
        parts = split_batch(raw, limits=limits)
    if not parts:
        raise EventError("$: the batch has no event")
    if len(parts) > most:
        raise TooLargeError(f"the batch has {len(parts):,} events; the limit is {most:,}")
    return [_event(call, part, f"event {number} of the batch: ") for number, part in enumerate(parts)]


def _event(call: Call, raw: bytes, place: str = "") -> Event:
    limit = call.doors.limits.event_bytes
    if len(raw) > limit:
        raise TooLargeError(f"{place}$: the event has {len(raw):,} bytes; the limit is {limit:,}")
    try:
        event = read_event(raw, default_id=uuid4().hex, limits=call.doors.limits)
    except EventError as error:
        raise EventError(f"{place}{error}") from None
    if call.media in (CLOUDEVENT, BATCH) and not event.source:  # the media type promises CloudEvents, which have one
        raise EventError(f'{place}$.specversion: a CloudEvent has "specversion": "1.0", an id, a source and a type')
    return event


def _binary(call: Call, raw: bytes) -> Event:
    """CloudEvents' HTTP binding, binary content mode: headers are percent-encoded UTF-8."""
    members: dict[str, Any] = {}
    for name, value in call.request.headers.items():
        if name in _NO_CONTEXT:
            raise ParameterError(f"header {name}: the event's data is the body, and its type is in content-type")
        if name.startswith("ce-"):
            members[name[3:]] = _text(name, value)
    content = call.request.headers.get("content-type")
    if content:
        members["datacontenttype"] = content
    if raw:
        members.update(_data(call, raw))
    return read_event(members, limits=call.doors.limits)


def _text(name: str, value: str) -> str:
    try:
        return unquote(value, errors="strict")
    except UnicodeDecodeError:
        raise ParameterError(f"header {name}: its percent-encoding is not UTF-8") from None


def _data(call: Call, raw: bytes) -> dict[str, Any]:
    limit = call.doors.limits.event_bytes
    if len(raw) > limit:
        raise TooLargeError(f"the event's data have {len(raw):,} bytes; the limit is {limit:,}")
    if call.media == JSON or call.media.endswith("+json"):
        try:
            return {"data": parse_json(raw)}
        except EventError as error:
            raise EventError(f"$.data: the body must be JSON, as its content-type says: {error}") from None
    if call.media.startswith("text/"):
        try:
            return {"data": raw.decode()}
        except UnicodeDecodeError:
            raise EventError("$.data: the body is text that is not UTF-8") from None
    return {"data_base64": base64.b64encode(raw).decode()}


def _attributed(event: Event, publisher: str | None) -> Event:
    """An event without a source comes from the publisher that the request names, if it names one."""
    if publisher is None or event.source:
        return event
    return msgspec.structs.replace(event, source=publisher[:256])


class _Publisher(msgspec.Struct, forbid_unknown_fields=True):
    name: str


async def connect_publisher(call: Call) -> Response:
    """An id for a publisher, to be sent with its events; it is the source of those that name none."""
    name = (await call.members(_Publisher)).name
    plain = "".join(c if c.isascii() and c.isalnum() else "-" for c in name[:64]).strip("-")
    if not plain:
        raise ParameterError("$.name: a publisher's name has at least one of A-Z a-z 0-9")
    return json_answer({"publisherId": f"publisher:{plain}-{uuid4().hex[:8]}", "name": name}, 201)
