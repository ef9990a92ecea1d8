"""The messages of a session (mobility.md 7), the same over WebSocket and over RUDP.

A message is a JSON object with a ``type``; a frame is one message or an array of them, so that whoever has much to say
says it in few frames. ``req`` is chosen by the agent and comes back in the answer; a request sent again with the same
``req`` is answered again and done once. Nothing here names the user: the service takes that from the session.

- ``nid`` numbers the notifications of a user: it grows, has gaps, and is the same when a notification is repeated, so
  the agent drops what it has seen. ``ACK`` confirms everything up to a nid that came on this connection.
- Notices (``GAP``, ``SUB_CANCELLED``) have numbers of their own and are confirmed one by one.
- A WebSocket begins with ``HELLO`` and ``WELCOME``; over RUDP the SIP session stands for the first, and, unless the
  device says otherwise, the transport's own acknowledgement for ``ACK``.

Events and subscriptions are carried as raw JSON: the event in flat or CloudEvents form (``recado.model.codec``), the
subscription as the object that ``recado.filters.records`` describes, without owner, and with these members more:
``ttl`` (seconds, instead of ``expires_at``), ``scope`` (``all`` or ``this device``) and ``webhook``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from recado.errors import RecadoError
from recado.model.decoding import explain, without_surrogates

MESSAGES_IN_A_FRAME = 10_000
WIDEST = 64
"""So many times its first window an agent may ask for."""
SUBS_BYTES = 128 * 1024
"""A SUBS is closed when it has this much, so that RUDP carries it, and nobody has to hold a long list as one text."""
ORDINAL_BITS = 20
"""A nid is ``position * 2**20 + ordinal``: the event's position in the log, the subscription's number at its owner."""


class MessageError(RecadoError):
    """A frame that is no message of a session; ``reqs`` are the requests in it, none of which was done."""

    def __init__(self, text: str, reqs: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.reqs = list(reqs)


class _Message(msgspec.Struct, frozen=True, gc=False, tag_field="type", omit_defaults=True):
    pass


# -- from the agent


class Hello(_Message, frozen=True, tag="HELLO"):
    """The first message on a WebSocket. ``seen`` is the highest nid that the device has handed to its application.

    ``token`` may be given here instead of in the HTTP header, which browsers cannot set. ``window`` is how many
    notifications the agent takes without confirming them. ``log`` names the log whose positions ``seen`` counts, as an
    earlier WELCOME did: of another one ``seen`` says nothing.
    """

    device: str
    token: str | None = None
    seen: int | None = None
    window: int | None = None
    log: str | None = None


class Subscribe(_Message, frozen=True, tag="SUBSCRIBE"):
    req: int
    sub: msgspec.Raw


class Unsubscribe(_Message, frozen=True, tag="UNSUBSCRIBE"):
    req: int
    sub_id: str


class Renew(_Message, frozen=True, tag="RENEW"):
    req: int
    sub_id: str
    expires_at: str | None = None
    ttl: float | None = None


class QuerySubs(_Message, frozen=True, tag="QUERY_SUBS"):
    req: int


class DiscardSubs(_Message, frozen=True, tag="DISCARD_SUBS"):
    req: int


class Publish(_Message, frozen=True, tag="PUBLISH"):
    """One event. Its id makes it the same event when it is sent again."""

    req: int
    event: msgspec.Raw


class Replay(_Message, frozen=True, tag="REPLAY"):
    """Events of the log through a filter, from a position or an instant on, as REPLAYED and then OK."""

    req: int
    sub: msgspec.Raw
    position: int | None = None
    since: str | None = None
    limit: int | None = None


class Ack(_Message, frozen=True, tag="ACK"):
    """``nids`` are confirmed beside ``upto``: an earlier one is still in hand. ``window`` is the agent's from now on:
    it grows by what a subscription that nobody reads holds, so that the others go on.
    """

    upto: int | None = None
    notices: tuple[int, ...] = ()
    nids: tuple[int, ...] = ()
    window: int | None = None


class Ping(_Message, frozen=True, tag="PING"):
    req: int


class Bye(_Message, frozen=True, tag="BYE"):
    """The device ends its session; its subscriptions stay, and so does its mailbox, unless it says to forget it."""

    forget: bool = False


# -- from the service


class Welcome(_Message, frozen=True, tag="WELCOME"):
    """``connected`` names the user's other devices that are connected; ``waiting`` counts what the mailbox holds.

    ``log`` is the identity of the service's log and ``end`` the position of the next event: an agent that has seen
    something beyond, or of another log, has to begin anew. It comes over RUDP, too, as the first message.
    """

    user: str
    device: str
    window: int
    waiting: int = 0
    connected: tuple[str, ...] = ()
    log: str = ""
    end: int | None = None


class Subscribed(_Message, frozen=True, tag="SUBSCRIBED"):
    req: int
    sub_id: str
    expires_at: str


class Subs(_Message, frozen=True, tag="SUBS"):
    """A long list comes as several messages, numbered by ``part``; all but the last say that there is ``more``."""

    req: int
    subs: tuple[dict[str, Any], ...] = ()
    part: int = 0
    more: bool = False


class Ok(_Message, frozen=True, tag="OK"):
    """Done; for PUBLISH with the event's position in the log, when it is on stable storage.

    For REPLAY, ``damage`` says which positions could not be read.
    """

    req: int
    position: int | None = None
    damage: tuple[str, ...] = ()


class Error(_Message, frozen=True, tag="ERROR"):
    """``code`` is an HTTP status; ``req`` is None if the frame could not be read."""

    req: int | None
    code: int
    text: str


class Notify(_Message, frozen=True, tag="NOTIFY"):
    nid: int
    sub_id: str
    event: msgspec.Raw
    generated_at: str
    queued: bool = False
    why: dict[str, Any] | None = None  # of a subscription by meaning: the pairs of names, and how alike they are


class Replayed(_Message, frozen=True, tag="REPLAYED"):
    req: int
    position: int
    event: msgspec.Raw


class Gap(_Message, frozen=True, tag="GAP"):
    """Notifications that were dropped and will not come: how many, which, and why.

    With ``budget`` it is not known whether there would have been any: the events were not matched.
    """

    notice: int
    count: int
    nids: tuple[int, ...]
    reason: Literal["full", "age", "purged", "damaged", "budget"]


class SubCancelled(_Message, frozen=True, tag="SUB_CANCELLED"):
    """Subscriptions ended without their owner's asking for it: ``expired``, or why else. Older services leave
    ``expired`` out.
    """

    notice: int
    sub_ids: tuple[str, ...]
    reason: str = ""


class Closing(_Message, frozen=True, tag="CLOSING"):
    """The last message of a connection that the service ends: ``taken over``, ``draining``, ``ended``."""

    reason: str


FromAgent: TypeAlias = (
    Hello | Subscribe | Unsubscribe | Renew | QuerySubs | DiscardSubs | Publish | Replay | Ack | Ping | Bye
)
FromService: TypeAlias = Welcome | Subscribed | Subs | Ok | Error | Notify | Replayed | Gap | SubCancelled | Closing

_encode = msgspec.json.Encoder().encode
_from_agent = msgspec.json.Decoder(FromAgent | list[FromAgent])
_from_service = msgspec.json.Decoder(FromService | list[FromService])


class _Asking(msgspec.Struct):
    req: Any = None


_asking = msgspec.json.Decoder(_Asking | list[_Asking])


def encode(messages: Sequence[FromAgent] | Sequence[FromService]) -> bytes:
    """A frame with these messages, in their order."""
    return _encode(messages[0] if len(messages) == 1 else messages)


def list_subs(req: int, subs: Iterable[dict[str, Any]]) -> Iterator[Subs]:
    """The answer to QUERY_SUBS, in parts."""
    size = number = 0
    part: list[dict[str, Any]] = []
    for one in subs:
        if size > SUBS_BYTES:
            yield Subs(req, tuple(part), number, more=True)
            size, number, part = 0, number + 1, []
        part.append(one)
        size += len(_encode(one))
    yield Subs(req, tuple(part), number)


def from_agent(frame: bytes | str) -> list[FromAgent]:
    """The messages of a frame that the service received; a MessageError says what is wrong with it."""
    messages: list[FromAgent] = _listed(_decode(frame, _from_agent))
    return messages


def refusals(error: RecadoError, code: int, text: str) -> list[Error]:
    """What to answer to a frame that could not be read: an ERROR for each request in it, or one without a request."""
    reqs: list[int | None] = [*error.reqs] if isinstance(error, MessageError) else []
    return [Error(req, code, text) for req in reqs or [None]]


def from_service(frame: bytes | str) -> list[FromService]:
    """The messages of a frame that an agent received."""
    messages: list[FromService] = _listed(_decode(frame, _from_service))
    return messages


def _decode(frame: bytes | str, decoder: Any) -> Any:
    try:
        return decoder.decode(frame)
    except msgspec.DecodeError as error:
        reason = explain(error, decoder.type, frame)
        raise MessageError(f"the frame is no message of a session: {reason}", _reqs(frame)) from None
    except UnicodeError:
        raise MessageError("the frame is not UTF-8") from None
    except RecursionError:
        raise MessageError("the frame's JSON is nested far too deep") from None


def _reqs(frame: bytes | str) -> list[int]:
    """The numbers of the requests in a frame that cannot be read, as far as they can."""
    text = frame.encode(errors="replace") if isinstance(frame, str) else frame
    try:
        asking = _asking.decode(without_surrogates(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    found = asking if isinstance(asking, list) else [asking]
    return [one.req for one in found[:MESSAGES_IN_A_FRAME] if type(one.req) is int and abs(one.req) < 2**63]


def _listed(decoded: Any) -> Any:
    if not isinstance(decoded, list):
        return [decoded]
    if len(decoded) > MESSAGES_IN_A_FRAME:
        raise MessageError(f"the frame has {len(decoded):,} messages; the limit is {MESSAGES_IN_A_FRAME:,}")
    return decoded
