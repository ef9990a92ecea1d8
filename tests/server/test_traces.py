"""A trace from publication to notification, over every transport, and the spans where OpenTelemetry is installed."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest

import recado
from recado.server import spans as spans_module
from server.engine_kit import ANA, attached, event, opened, settled, story, subscribed
from server.running import agent, http, m, raw, run, serving, until
from server.test_sip import collect, sip_serving, url
from server.test_webhooks import QUICK, receiver

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"


def traces(notifications):
    return [one["event"].get("traceparent") for one in notifications]


def test_a_header_of_the_publication_comes_with_every_notification(tmp_path):
    async def check():
        async with serving(tmp_path, webhooks=QUICK) as server, http(server) as ana, receiver() as hook:
            for kind in ("flat", "cloudevent"):
                record = {"id": kind, "webhook": {"url": hook.url, "format": kind}}
                assert (await ana.post("/v1/subscriptions", json=record)).status_code == 201
            await ana.post("/v1/subscriptions", json={"id": "poll"})
            async with agent(server, "ben") as ben:
                await ben.subscribe(1)
                header = {"traceparent": PARENT, "tracestate": "a=b"}
                one = {"id": "1", "type": "t", "source": "/s", "x": 1}
                assert (await ana.post("/v1/events", json=one, headers=header)).status_code == 202
                notify = await ben.next(m.Notify)
                assert msgspec.json.decode(notify.event)["traceparent"] == PARENT
                batch = [{"type": "t"}, {"type": "t", "traceparent": OTHER}]
                assert (await ana.post("/v1/events", json=batch, headers=header)).status_code == 202
                context = {"ce-specversion": "1.0", "ce-id": "b", "ce-source": "/", "ce-type": "t"}
                await ana.post("/v1/events", headers={**context, "ce-traceparent": OTHER})
                await ana.post("/v1/events", headers={**context, "ce-id": "c", **header})
                await ana.post("/v1/events", json={"type": "t"}, headers={"traceparent": "no such thing"})
                seen = [msgspec.json.decode((await ben.next(m.Notify)).event).get("traceparent") for _ in range(5)]
                assert seen == [PARENT, OTHER, OTHER, PARENT, None]
            taken = (await ana.post("/v1/mailboxes/me/take", json={"wait": 5})).json()["notifications"]
            assert traces(taken) == [PARENT, PARENT, OTHER, OTHER, PARENT, None]
            await until(lambda: len(hook.requests) == 12)
            for _, fields, body in hook.requests:
                members = msgspec.json.decode(body)
                assert fields.get("traceparent") == members.get("traceparent")
                if members["id"] == "1":
                    assert (fields["traceparent"], fields["tracestate"]) == (PARENT, "a=b")
                    assert "specversion" not in members or "traceparent" not in members["data"]

    run(check())


def test_over_a_websocket_and_sip_the_event_carries_it(tmp_path):
    async def check():
        async with sip_serving(tmp_path) as server, recado.connect(url(server), device="phone") as ana:
            every = await ana.subscribe(id="all").ready()
            await ana.publish({"id": "1", "type": "t", "traceparent": PARENT})
            async with agent(server, "ben") as ben:
                await ben.ask(m.Publish(1, raw({"id": "2", "type": "t", "traceparent": OTHER})))
            assert [one["traceparent"] for one in await collect(every, 2)] == [PARENT, OTHER]

    asyncio.run(check())


@story
async def test_a_repeat_within_another_trace_is_the_same_event_also_after_a_restart(tmp_path):
    engine = await subscribed(tmp_path)
    assert list(await engine.publish(ANA, [event(1, traceparent=PARENT), event(2)])) == [0, 1]
    assert list(await engine.publish(ANA, [event(1, traceparent=OTHER), event(2, traceparent=OTHER)])) == [0, 1]
    assert list(await engine.publish(ANA, [event(1)])) == [0]
    assert list(await engine.publish(ANA, [event(1, x=1, traceparent=PARENT)])) == [2], "other content"
    await engine.close()
    engine = await opened(tmp_path)
    assert list(await engine.publish(ANA, [event(2), event(1, x=1, traceparent=OTHER)])) == [1, 2]
    await settled(engine)
    consumer = await attached(engine)
    assert [msgspec.json.decode(one.event).get("traceparent") for one in consumer.got] == [PARENT, None, PARENT]
    await engine.close()


# -- spans


@pytest.fixture
def exported(monkeypatch):
    """The spans that were made; the provider is this test's alone."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter, provider
    provider.shutdown()


def test_without_a_provider_there_are_no_spans(tmp_path, monkeypatch):
    assert spans_module.find_spans() is None
    monkeypatch.setattr(spans_module, "find_spec", lambda name: None)
    assert spans_module.find_spans() is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    spans_module.configure_export()()


def test_spans_are_children_of_what_the_event_names(tmp_path, exported):
    exporter, _ = exported

    async def check():
        async with serving(tmp_path, webhooks=QUICK) as server, http(server) as ana, receiver() as hook:
            hook.answers = [500]
            await ana.post("/v1/subscriptions", json={"id": "hook", "webhook": {"url": hook.url}})
            async with agent(server, "ben") as ben:
                await ben.subscribe(1)
                await ana.post("/v1/events", json=[{"type": "t"}, {"type": "t"}])  # without a trace
                await ana.post("/v1/events", json={"id": "1", "type": "t"}, headers={"traceparent": PARENT})
                for _ in range(3):
                    await ben.next(m.Notify)
            await until(lambda: len(hook.requests) == 4)
            return [fields.get("traceparent", "") for _, fields, _ in hook.requests]

    headers = run(check())
    found = {}
    for span in exporter.get_finished_spans():
        assert span.context.trace_id == int(PARENT.split("-")[1], 16)
        assert span.parent.span_id == int(PARENT.split("-")[2], 16)
        assert span.attributes["messaging.message.id"] == "1"
        found.setdefault(span.name, []).append(span)
    assert {name: len(some) for name, some in found.items()} == {
        "recado publish": 1, "recado notify": 1, "recado webhook": 1
    }  # fmt: skip
    assert found["recado publish"][0].attributes["recado.position"] == 2
    assert found["recado notify"][0].attributes["recado.transport"] == "websocket"
    assert headers[-1].split("-")[2] == f"{found['recado webhook'][0].context.span_id:016x}"
    assert headers[:-1] == ["", "", ""]


def test_the_client_names_the_span_that_is_current(tmp_path, exported):
    _, provider = exported

    async def check():
        async with (
            serving(tmp_path) as server,
            recado.connect(server.url.replace("http://", "recado://ana@"), device="d") as ana,
        ):
            every = await ana.subscribe(id="all").ready()
            with provider.get_tracer("test").start_as_current_span("work") as span:
                await ana.publish("t", {"x": 1})
                await ana.publish({"type": "t", "traceparent": OTHER})
            await ana.publish("t", {"x": 2})
            first, second, third = [one.get("traceparent") for one in await collect(every, 3)]
            context = span.get_span_context()
            assert first == f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
            assert (second, third) == (OTHER, None)

    run(check())


def test_spans_go_where_the_environment_says(tmp_path, monkeypatch):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry import trace

    asked, done = [], threading.Event()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()
            done.set()

        def log_message(self, *_):
            pass

    collector = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    providers = []
    monkeypatch.setattr(trace, "set_tracer_provider", providers.append)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: providers[0])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    end = spans_module.configure_export()

    async def check():
        async with serving(tmp_path) as server, http(server) as ana:
            await ana.post("/v1/events", json={"id": "far", "type": "t"}, headers={"traceparent": PARENT})

    run(check())
    end()
    assert done.wait(10)
    collector.shutdown()
    collector.server_close()
    assert asked[0][0] == "/v1/traces"
    assert b"recado publish" in asked[0][1]
