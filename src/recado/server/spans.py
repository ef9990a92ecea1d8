"""Spans of OpenTelemetry for events that carry a trace, where the extra ``otel`` is installed and a provider is set.

- ``recado publish``: from the arrival of an event to its acknowledgement,
- ``recado notify``: from the acceptance of an event to the moment at which a connection is given its notification,
- ``recado webhook``: one attempt at a webhook, which is told of this span as its parent.

Each is a child of the span that the event names in ``traceparent``. Without a provider nothing is looked at.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from recado.errors import EventError
from recado.model.codec import read_event
from recado.model.event import Event
from recado.model.tracing import TRACEPARENT, trace_of

_MARK = f'"{TRACEPARENT}"'.encode()
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def configure_export() -> Callable[[], None]:
    """Let spans go where the environment says (``OTEL_EXPORTER_OTLP_ENDPOINT``); what ends that, and sends the rest.

    Does nothing if the environment says nothing, or the extra is not installed.
    """
    wanted = any(os.environ.get(name) for name in _ENDPOINTS)
    if not wanted or find_spec("opentelemetry") is None:
        return lambda: None
    from opentelemetry import trace  # noqa: PLC0415  # only where it is installed and asked for
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  # the same
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  # the same
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  # the same
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  # the same

    name = os.environ.get("OTEL_SERVICE_NAME") or "recado"
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return lambda: provider.shutdown()  # noqa: PLW0108  # it is untyped


def find_spans() -> Spans | None:
    """The spans of a service; None if OpenTelemetry is not installed, or nobody has set a provider."""
    if find_spec("opentelemetry") is None:
        return None
    from opentelemetry import trace  # noqa: PLC0415  # only where it is installed

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return Spans(provider.get_tracer("recado"))


class Spans:
    """Makes spans with a tracer."""

    def __init__(self, tracer: Any) -> None:
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415  # only where it is installed
            TraceContextTextMapPropagator,
        )

        self._tracer, self._propagator = tracer, TraceContextTextMapPropagator()

    def publishing(self, events: Sequence[Event]) -> Callable[[Sequence[int] | Exception], None] | None:
        """Begin a span for each event that has a trace; what ends them with the answer. None if there is none."""
        spans = [
            (number, self._begin("recado publish", event, trace))
            for number, event in enumerate(events)
            if (trace := trace_of(event))
        ]
        if not spans:
            return None

        def done(answer: Sequence[int] | Exception) -> None:
            for number, span in spans:
                if isinstance(answer, Exception):
                    span.record_exception(answer)
                else:
                    span.set_attribute("recado.position", answer[number])
                span.end()

        return done

    def notified(self, text: bytes, sub_id: str, kind: str, accepted_at: float) -> None:
        """An event was given to a connection; ``accepted_at`` is a time since the epoch."""
        if (event := _read(text)) is None or not (trace := trace_of(event)):
            return
        span = self._begin("recado notify", event, trace, int(accepted_at * 1e9))
        span.set_attribute("recado.subscription", sub_id)
        span.set_attribute("recado.transport", kind)
        span.end(max(time.time_ns(), int(accepted_at * 1e9)))

    @contextmanager
    def webhook(self, event: Event, sub_id: str, attempt: int, headers: dict[str, str]) -> Iterator[None]:
        """One attempt; the headers name its span from then on."""
        trace = trace_of(event)
        if not trace:
            yield
            return
        span = self._begin("recado webhook", event, trace)
        span.set_attribute("recado.subscription", sub_id)
        span.set_attribute("recado.attempt", attempt)
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415  # only where it is installed

        self._propagator.inject(headers, set_span_in_context(span))
        try:
            yield
        finally:
            span.end()

    def _begin(self, name: str, event: Event, trace: dict[str, str], at: int | None = None) -> Any:
        attributes = {"messaging.system": "recado", "messaging.message.id": event.id, "recado.type": event.type}
        context = self._propagator.extract(trace)
        return self._tracer.start_span(name, context, attributes=attributes, start_time=at)


def _read(text: bytes) -> Event | None:
    if _MARK not in text:
        return None
    try:
        return read_event(text)
    except EventError:  # another limit was in force when it was stored
        return None
