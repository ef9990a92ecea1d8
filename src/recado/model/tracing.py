"""The trace that an event belongs to: W3C Trace Context, as CloudEvents' distributed tracing extension carries it.

``traceparent`` and ``tracestate`` are extension attributes of the event. So they are stored with it, and come with
every notification of it over every transport. They say how an event was sent, not what happened: the same event sent
again within another trace is the same event.
"""

from __future__ import annotations

import re

import msgspec

from recado.model.event import Event

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}", re.ASCII)


def is_traceparent(text: object) -> bool:
    """Is this a ``traceparent`` as W3C defines it?"""
    return isinstance(text, str) and _TRACEPARENT.fullmatch(text) is not None


def trace_of(event: Event) -> dict[str, str]:
    """``traceparent``, and ``tracestate`` if there is one, as headers have them; {} without a valid one."""
    parent, state = event.attributes.get(TRACEPARENT), event.attributes.get(TRACESTATE)
    if not isinstance(parent, str) or not is_traceparent(parent):
        return {}
    more = {TRACESTATE: state} if isinstance(state, str) and _TRACESTATE.fullmatch(state) else {}
    return {TRACEPARENT: parent, **more}


def with_trace(event: Event, traceparent: str | None, tracestate: str | None = None) -> Event:
    """The event within that trace; itself if it names one already, or if this is none."""
    if not is_traceparent(traceparent) or TRACEPARENT in event.attributes:
        return event
    added = {TRACEPARENT: traceparent}
    if tracestate and _TRACESTATE.fullmatch(tracestate) and TRACESTATE not in event.attributes:
        added[TRACESTATE] = tracestate
    return msgspec.structs.replace(
        event, attributes={**event.attributes, **added}, extensions=(*event.extensions, *added)
    )


def mark_trace(event: Event) -> Event:
    """The event with its trace among the extensions, where a CloudEvent has it, however it was sent."""
    missing = [name for name in trace_of(event) if name not in event.extensions]
    return msgspec.structs.replace(event, extensions=(*event.extensions, *missing)) if missing else event


def without_trace(event: Event) -> Event:
    """What happened, without how it was sent."""
    if TRACEPARENT not in event.attributes and TRACESTATE not in event.attributes:
        return event
    return msgspec.structs.replace(
        event,
        attributes={name: value for name, value in event.attributes.items() if name not in (TRACEPARENT, TRACESTATE)},
        extensions=tuple(name for name in event.extensions if name not in (TRACEPARENT, TRACESTATE)),
    )
