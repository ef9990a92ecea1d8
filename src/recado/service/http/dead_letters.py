"""``/v1/dead-letters``: notifications that a webhook did not take, to be looked at, sent again or forgotten."""

from __future__ import annotations

from starlette.responses import Response

from recado.service.http.answers import MOST, json_answer, page
from recado.service.http.call import Call, ParameterError
from recado.service.permissions import Unknown, authorise
from recado.service.webhooks.letters import Letter


async def dead_letters(call: Call) -> Response:
    """A page of the oldest ones: the caller's, or another user's for an administrator (``*``: everybody's)."""
    user = call.text("user") or call.who.user
    authorise(call.who, "read", user=user)
    limit = call.number("limit", MOST, 1) or 100
    found = call.doors.letters.of(user, limit + 1, call.number("after") or 0)
    shown = page(found, limit, lambda letter: len(letter.event))
    more = {"next": shown[-1].number} if len(shown) < len(found) else {}
    return json_answer({"dead_letters": [letter.members() for letter in shown], **more})


async def purge_dead_letters(call: Call) -> Response:
    user = call.text("user") or call.who.user
    authorise(call.who, "manage", user=user)
    return json_answer({"purged": call.doors.letters.purge(user)})


async def forget_dead_letter(call: Call) -> Response:
    call.doors.letters.forget(_letter(call).number)
    return Response(status_code=204)


async def retry_dead_letter(call: Call) -> Response:
    """Send it once more, after all that waits for its target now."""
    letter = _letter(call)
    call.doors.webhooks.retry(letter)
    return json_answer({"number": letter.number, "retried": True}, 202)


def _letter(call: Call) -> Letter:
    text = call.path("number")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ParameterError(f"the number of a dead letter is a whole number, not {text[:50]!r}")
    letter = call.doors.letters.find(int(text))
    if letter is None or (letter.user != call.who.user and not call.who.admin):
        raise Unknown(f"there is no dead letter {text}")  # nobody learns which numbers others have
    authorise(call.who, "manage", user=letter.user)
    return letter
