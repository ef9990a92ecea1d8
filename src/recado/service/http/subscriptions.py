"""``/v1/subscriptions``: create, list, show, renew and cancel. A subscription with a webhook is delivered by POST."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
from starlette.responses import Response

from recado.service.http.answers import json_answer
from recado.service.http.call import Call, ParameterError
from recado.service.permissions import Unknown
from recado.service.records import instant, shown

DEVICE = "http"
"""The device of subscriptions that name none."""


async def subscribe(call: Call) -> Response:
    """Subscribe; the answer leaves when the subscription is durable. The same id replaces."""
    call.check_media("application/json")
    raw = await call.body()
    held = await call.doors.subscribe(call.who, raw, call.text("device") or DEVICE)
    return json_answer(shown(held.members()), 201, {"location": f"/v1/subscriptions/{quote(held.id, safe='')}"})


async def subscriptions(call: Call) -> Response:
    """The caller's subscriptions; an administrator may ask for another user's, or with * for everybody's."""
    found = call.engine.subscriptions(call.who, call.text("user"))
    return json_answer({"subscriptions": [{"user": held.user, **shown(held.members())} for held in found]})


async def subscription(call: Call) -> Response:
    wanted = call.path("id")
    for held in call.engine.subscriptions(call.who, call.text("user")):
        if held.id == wanted:
            return json_answer(shown(held.members()))
    raise Unknown(f"there is no subscription {wanted!r}")


class _Renewal(msgspec.Struct, forbid_unknown_fields=True):
    ttl: float | None = None
    expires_at: str | None = None


async def renew(call: Call) -> Response:
    """Let it live longer: by ``ttl`` seconds from now, or until ``expires_at``; by the default if neither is given."""
    wanted = await call.members(_Renewal)
    if wanted.ttl is not None and wanted.expires_at is not None:
        raise ParameterError("$.ttl: give either ttl or expires_at, not both")
    until = instant(wanted.expires_at, "expires_at")
    held = await call.engine.renew(call.who, call.path("id"), until, wanted.ttl)
    return json_answer(shown(held.members()))


async def cancel(call: Call) -> Response:
    """An administrator may end another user's, who is told."""
    await call.engine.cancel(call.who, call.path("id"), call.text("user"))
    return Response(status_code=204)


async def discard(call: Call) -> Response:
    """Cancel all that the user has, but for those of other devices, and empty the mailbox."""
    device = call.text("device")
    if device is None:
        raise ParameterError("?device: name the device that starts anew")
    return json_answer({"cancelled": await call.engine.discard(call.who, device)})
