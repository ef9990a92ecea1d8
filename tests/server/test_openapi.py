"""The served OpenAPI document is right: schemathesis asks every operation with what the document allows and forbids."""

import asyncio
import threading
from contextlib import contextmanager

import httpx
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method

from recado.server.http.openapi import document
from recado.server.http.operations import OPERATIONS
from recado.server.server import Server
from recado.server.tokens import add_token
from server.running import config

OPERATION_IDS = [o["operationId"] for methods in document()["paths"].values() for o in methods.values()]
ASKED = [id for id in OPERATION_IDS if id != "openapi"]  # schemathesis leaves out the document itself
# A text that the schema allows need not be a filter, a known id or an instant; that is told with 400 or 404. Methods
# beyond the document are tested in test_http; HEAD and OPTIONS are answered there and not listed here.
NOT_HERE = [positive_data_acceptance, unsupported_method]


@contextmanager
def service(folder):
    """A service in a thread of its own, which needs a token; its address and the token."""
    token = add_token(folder / "tokens", "test", "ana", admin=True)
    access = {"tokens": str(folder / "tokens"), "anonymous": False}
    limits = {"poll_seconds": 0.01, "failed_logins_per_minute": 1_000_000}
    started, address, stop = threading.Event(), [], []

    async def serve():
        async with Server.start(config(folder, limits=limits, access=access)) as server:
            await server.engine.when_loaded()
            address.append(server.url)
            done = asyncio.Event()
            stop.append((asyncio.get_running_loop(), done))
            started.set()
            await done.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(30)
    try:
        yield address[0], token
    finally:
        loop, done = stop[0]
        loop.call_soon_threadsafe(done.set)
        thread.join()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with service(tmp_path_factory.mktemp("openapi")) as found:
        yield found


@pytest.fixture(scope="module")
def schema(served):
    url, _ = served
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


@pytest.mark.parametrize("id", [id for id in ASKED if not id.endswith("_unversioned")])
def test_every_operation_answers_as_the_document_says(served, schema, id):
    ask_operation(served, schema, id, 8)


def ask_operation(served, schema, id, examples):
    url, token = served
    operation = _found(schema, id)

    @given(case=operation.as_strategy())
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(case):
        headers = {"Authorization": f"Bearer {token}"}
        case.call_and_validate(base_url=url, headers=headers, excluded_checks=NOT_HERE, timeout=120)

    check()


def _found(schema, id):
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.definition.raw.get("operationId") == id:
            return operation
    raise AssertionError(f"{id} is not in the document")


def test_the_document_names_every_operation_and_every_schema_once():
    found = document()
    listed = {(method.upper(), path) for path, methods in found["paths"].items() for method in methods}
    assert {(o.method, o.path) for o in OPERATIONS} <= listed
    assert len(OPERATION_IDS) == len(set(OPERATION_IDS))
    text = str(found)
    for name in found["components"]["schemas"]:
        assert f"#/components/schemas/{name}" in text, name


def test_the_document_is_openapi():
    from openapi_spec_validator import OpenAPIV31SpecValidator

    assert [str(error) for error in OpenAPIV31SpecValidator(document()).iter_errors()] == []


def allows(schema, value):
    """Does a schema of the document allow the value?"""
    found = {"$ref": f"#/components/schemas/{schema}", "components": document()["components"]}
    return jsonschema_rs.validator_for(found).is_valid(value)


CONTEXT = {"specversion": "1.0", "id": "1", "source": "/x", "type": "t"}


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ("CloudEvent", {**CONTEXT, "data": {"Price": 24.9, "deep": {"er": [1]}}}, True),
        ("CloudEvent", {**CONTEXT, "data": [1, 2], "datacontenttype": "application/json", "subject": "s"}, True),
        ("CloudEvent", {**CONTEXT, "data_base64": "eA==", "traceparent": "00-1"}, True),
        ("CloudEvent", {**CONTEXT, "extension": {"not": "an object"}}, False),
        ("NewSubscription", {"constraints": [{"kind": "frequency", "amount": 15, "unit": "seconds"}]}, True),
        ("NewSubscription", {"constraints": [{"kind": "frequency", "amount": 15, "unit": "weeks"}]}, False),
        ("NewSubscription", {"constraints": [{"kind": "daily", "from": "16:00", "to": "17:00", "tz": "UTC"}]}, True),
        ("NewSubscription", {"constraints": [{"kind": "daily", "from": "16:00"}]}, False),
        ("NewSubscription", {"constraints": [{"kind": "absolute", "from": "2026-11-15T10:00:00Z", "to": "x"}]}, True),
        ("NewSubscription", {"constraints": [{"kind": "yearly"}]}, False),
        ("Notice", {"type": "GAP", "notice": 1, "count": 2, "nids": [1, 2], "reason": "full"}, True),
        ("Notice", {"type": "GAP", "notice": 1, "count": 2, "nids": [1, 2], "reason": "mood"}, False),
        ("Notice", {"type": "SUB_CANCELLED", "notice": 1, "sub_ids": ["s"], "reason": "expired"}, True),
        ("Notice", {"type": "SUB_CANCELLED", "notice": 1, "sub_ids": ["s"]}, False),
    ],
)
def test_the_schemas_allow_what_is_right_and_nothing_else(schema, value, expected):
    assert allows(schema, value) is expected


def test_what_the_schemas_describe_is_what_is_served(served):
    url, token = served
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as client:
        assert allows("Status", client.get("/v1/status").json())
        assert allows("Readiness", client.get("/readyz").json())
        structured = {**CONTEXT, "id": "structured", "data": {"Price": 24.9}}
        media = {"content-type": "application/cloudevents+json"}
        assert allows("Published", client.post("/v1/events", json=structured, headers=media).json())
        binary = {f"ce-{name}": value for name, value in CONTEXT.items()} | {"content-type": "text/plain"}
        answer = client.post("/v1/events", content=b"any text", headers=binary)
        assert (answer.status_code, allows("Published", answer.json())) == (202, True)
        daily = {"kind": "daily", "from": "00:00", "to": "24:00", "weekdays": ["mon"], "when": "disconnected"}
        record = {"id": "s", "constraints": [daily], "ttl": 3600}
        assert allows("NewSubscription", record)
        assert allows("Subscription", client.post("/v1/subscriptions", json=record).json())
        for path in ("/v1/mailboxes/me", "/v1/sessions/me", "/v1/mailboxes/me/notifications"):
            answer = client.get(path)
            assert answer.status_code == 200, path
        assert client.put("/v1/status").status_code == 405
        assert client.get("/healthz", headers={"x-long": "x" * 1_000_000}).status_code == 431


def test_every_operation_names_the_answers_that_any_request_may_get():
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            expected = {"400", "431"} | ({"405"} if path != "/v1/session" else set())
            assert expected <= set(operation["responses"]), (method, path)
    assert {one["name"] for one in document()["components"]["securitySchemes"].values() if one["type"] == "apiKey"} == {
        "X-Recado-User",
        "user",
    }


@pytest.mark.long
def test_every_operation_answers_as_the_document_says_for_long(served, schema):
    for id in ASKED:
        ask_operation(served, schema, id, 60)
