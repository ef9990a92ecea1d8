"""The served OpenAPI document is right: schemathesis asks every operation with what the document allows and forbids."""

import asyncio
import threading
from contextlib import contextmanager

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method

from recado.server.http.openapi import document
from recado.server.http.operations import OPERATIONS
from recado.server.server import Server
from server.running import config

OPERATION_IDS = [o["operationId"] for methods in document()["paths"].values() for o in methods.values()]
# A text that the schema allows need not be a filter, a known id or an instant; that is told with 400 or 404. Methods
# beyond the document are tested in test_http; HEAD and OPTIONS are answered there and not listed here.
NOT_HERE = [positive_data_acceptance, unsupported_method]


@contextmanager
def service(folder):
    """A service in a thread of its own."""
    started, address, stop = threading.Event(), [], []

    async def serve():
        async with Server.start(config(folder, limits={"poll_seconds": 0.01})) as server:
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
        yield address[0]
    finally:
        loop, done = stop[0]
        loop.call_soon_threadsafe(done.set)
        thread.join()


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with service(tmp_path_factory.mktemp("openapi")) as found:
        yield found


@pytest.fixture(scope="module")
def schema(url):
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


@pytest.mark.parametrize("id", [id for id in OPERATION_IDS if not id.endswith("_unversioned")])
def test_every_operation_answers_as_the_document_says(url, schema, id):
    operation = _found(schema, id)

    @given(case=operation.as_strategy())
    @settings(
        max_examples=8, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    def check(case):
        case.call_and_validate(base_url=url, headers={"X-Recado-User": "ana"}, excluded_checks=NOT_HERE)

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
