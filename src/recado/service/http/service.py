"""What operators ask: ``/healthz``, ``/readyz``, ``/metrics``, ``/v1/status``.

The first two need no token and say nothing but yes or no. Metrics and status name users' figures in sum only, yet they
are for administrators, and for anyone on a loopback listener that is open to callers without a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from recado.service.doors import Doors
from recado.service.http.answers import json_answer
from recado.service.http.call import Call
from recado.service.metrics import CONTENT_TYPE, exposition
from recado.service.permissions import authorise


def healthz() -> Response:
    """The process answers."""
    return json_answer({"status": "ok"})


def readyz(doors: Doors) -> Response:
    """It accepts publications and subscriptions. While it loads what is stored, publications are accepted already."""
    ready = doors.engine.ready and doors.engine.loaded and not doors.draining
    word = "ready" if ready else "draining" if doors.draining else "loading" if doors.engine.ready else "starting"
    return json_answer({"status": word}, 200 if ready else 503)


async def metrics(call: Call) -> Response:
    _check(call)
    body = exposition(call.doors.metrics, lambda: states(call.doors))
    return Response(body, 200, {"content-type": CONTENT_TYPE})


async def status(call: Call) -> Response:
    _check(call)
    return json_answer(call.engine.status())


def states(doors: Doors) -> dict[str, float]:
    """The engine's figures of this moment, flat, with the connections."""
    found: dict[str, float] = {"connections": float(doors.connections)}
    _flatten("", doors.engine.status(), found)
    return found


def _flatten(prefix: str, members: Mapping[str, Any], found: dict[str, float]) -> None:
    for name, value in members.items():
        if isinstance(value, Mapping):
            _flatten(f"{prefix}{name}_", value, found)
        elif isinstance(value, int | float):
            found[f"{prefix}{name}".replace(".", "_").replace("-", "_")] = float(value)


def _check(call: Call) -> None:
    if not call.doors.identity.open:
        authorise(call.who, "administer")
