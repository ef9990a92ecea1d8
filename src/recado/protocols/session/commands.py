"""What an application says to its agent and hears from it, and how an agent is set up.

The requests are the values of ``Asked``, the facts the values of ``Report``. A ``ref`` is anything by which the
application knows a request again; it never leaves the agent.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from recado.errors import RecadoError
from recado.protocols.session.messages import Error, Gap, Ok, Replayed, Subs, Subscribed, Welcome

Existing: TypeAlias = Literal["recover", "discard", "leave"]
OnCancelled: TypeAlias = Literal["renew", "resubscribe", "ignore", "callback"]
Answer: TypeAlias = Ok | Subscribed | Subs | Error


class AgentError(RecadoError):
    """A request that the agent cannot take: its outbox is off, or its session has ended."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent behaves.

    ``existing`` is what the first connection does about the subscriptions that the service holds: take them over,
    discard them, or leave them alone and look after those that this agent makes. ``on_cancelled`` is what it does about
    a subscription that expired (the mobility document, 8.4 and 8.5). ``outbox`` bounds the requests that wait while
    there is no connection, oldest dropped first; 0 refuses them at once. ``greets`` is true where the transport itself
    does not say who is there: the agent then begins with HELLO. ``confirms`` is true where ACK confirms notifications
    when the application is done with them, and false where the transport does when they arrive. A request that the
    service is too busy for (503) is made again every ``busy_seconds``, and one of the agent's own also if it came too
    fast (429); a publication is not: others would overtake it.
    """

    device: str = "device"
    token: str | None = None
    existing: Existing = "recover"
    on_cancelled: OnCancelled = "resubscribe"
    renew_at: float = 0.8
    outbox: int = 100
    greets: bool = True
    confirms: bool = True
    window: int = 1_024
    ack_seconds: float = 0.02
    remembered: int = 65_536
    kept_nids: int = 1_024
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 60.0
    steady_seconds: float = 5.0
    greeting_seconds: float = 10.0
    silence_seconds: float = 30.0
    busy_seconds: float = 0.1
    busy_tries: int = 600
    first_request: int = 1


# -- requests


class PublishEvent(msgspec.Struct, frozen=True):
    """An event as JSON; its id makes it the same event when the agent has to send it again."""

    event: msgspec.Raw
    ref: Any = None


class MakeSubscription(msgspec.Struct, frozen=True):
    """A record without owner; ``id`` must be in it. ``ttl`` is renewed by the agent, ``expires_at`` is the end."""

    record: dict[str, Any]
    ref: Any = None


class CancelSubscription(msgspec.Struct, frozen=True):
    sub_id: str
    ref: Any = None


class RenewSubscription(msgspec.Struct, frozen=True):
    sub_id: str
    ttl: float | None = None
    expires_at: str | None = None
    ref: Any = None


class ListSubscriptions(msgspec.Struct, frozen=True):
    ref: Any = None


class DiscardSubscriptions(msgspec.Struct, frozen=True):
    ref: Any = None


class ReplayLog(msgspec.Struct, frozen=True):
    """Events of the log through a filter; they come as ``Streamed``, and go on where they were after a reconnect."""

    record: dict[str, Any]
    position: int | None = None
    since: str | None = None
    limit: int | None = None
    ref: Any = None


class Took(msgspec.Struct, frozen=True, gc=False):
    """The application is done with these notifications."""

    nids: list[int]


class Reachable(msgspec.Struct, frozen=True, gc=False):
    """The device has a (new) address: do not wait any longer to dial."""


class TurnedAway(msgspec.Struct, frozen=True, gc=False):
    """The service answered the attempt to connect, and said no; ``code`` is an HTTP status."""

    code: int
    text: str


class Leave(msgspec.Struct, frozen=True, gc=False):
    """End the session; the subscriptions stay. With ``forget`` the device does not come back."""

    forget: bool = False


# -- facts


class Dial(msgspec.Struct, frozen=True, gc=False):
    """Try to connect now, and say LinkUp or LinkDown."""

    attempt: int


class HangUp(msgspec.Struct, frozen=True, gc=False):
    """Close the connection, and say nothing more of it."""

    reason: str


class Connected(msgspec.Struct, frozen=True, gc=False):
    """``first`` is true until the start policy has been carried out once."""

    first: bool
    welcome: Welcome | None = None


class Disconnected(msgspec.Struct, frozen=True, gc=False):
    reason: str
    again_in_seconds: float | None = None


class Ended(msgspec.Struct, frozen=True, gc=False):
    """The agent will not connect again: it left, was taken over, was ended, or is not allowed in."""

    reason: str
    code: int = 0


class Started(msgspec.Struct, frozen=True, gc=False):
    """The start policy is carried out; these subscriptions are in place."""

    sub_ids: tuple[str, ...]


class Answered(msgspec.Struct, frozen=True):
    ref: Any
    answer: Answer


class Streamed(msgspec.Struct, frozen=True):
    ref: Any
    replayed: Replayed


class Dropped(msgspec.Struct, frozen=True):
    """A request that was never answered and will not be sent again; ``dropped`` counts all of them."""

    ref: Any
    reason: str
    dropped: int


class BegunAnew(msgspec.Struct, frozen=True, gc=False):
    """What the device remembered of notifications is of another log and was forgotten; some may come a second time."""

    reason: str


class Crowded(msgspec.Struct, frozen=True, gc=False):
    """A subscription that nobody reads holds so much that the session stands still."""

    sub_id: str
    held: int


class GapFound(msgspec.Struct, frozen=True, gc=False):
    """Notifications that the service dropped and that will not come."""

    gap: Gap


class Cancelled(msgspec.Struct, frozen=True, gc=False):
    """A subscription is gone from the service. ``action`` is what the agent does about it by itself, if anything."""

    sub_id: str
    reason: str
    action: Literal["renew", "resubscribe", "none"]


class Renewed(msgspec.Struct, frozen=True, gc=False):
    sub_id: str
    expires_at: str


class RenewalRefused(msgspec.Struct, frozen=True, gc=False):
    """The service took neither the renewal nor the subscription again; it is no longer looked after."""

    sub_id: str
    code: int
    text: str
