"""What every publish/subscribe protocol of an overlay has in common: its requests, its answers, its description.

``Subscribe`` to ``BecomeBroker`` are what an application may ask of a machine; ``Notified`` and the facts are what it
is told. Names are of the node's own application; identifiers of subscriptions are unique in the whole overlay and tell
nothing of the node that made them.

``OverlayProtocol`` describes a protocol to the engines: how its machines are made, what they say to each other, what
can be set and what can be asked. ``recado.protocols.registry`` has the protocols by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import msgspec

from recado.errors import RecadoError
from recado.model.event import Event
from recado.model.subscription import Subscription
from recado.protocols.machine import Machine, NodeId, Stimulus
from recado.protocols.topology import Topology
from recado.protocols.wire import WireError, decoder, encode

# --- Requests: the values of ``Asked`` -------------------------------------------------------------------------------
#
# The names of the fields are shown in stories and are part of the fingerprint of a simulated run.


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    subscription: Subscription


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    id: str


class Publish(msgspec.Struct, frozen=True, gc=False):
    """Only events of a type that this node publishes: see ``BecomePublisher``."""

    event: Event


class BecomePublisher(msgspec.Struct, frozen=True, gc=False):
    type: str


class BecomeBroker(msgspec.Struct, frozen=True, gc=False):
    """Stop publishing a type, or being a candidate for it; the node still relays."""

    type: str


class BecomeCandidate(msgspec.Struct, frozen=True, gc=False):
    """Stand by for a type: publish it when no publisher is left and this node is ``Elected``."""

    type: str


class Leave(msgspec.Struct, frozen=True, gc=False):
    """Leave the overlay in good order; ``Left`` tells when the node may be stopped. Few protocols have it."""


Request: TypeAlias = Subscribe | Unsubscribe | Publish | BecomePublisher | BecomeBroker | BecomeCandidate | Leave

REQUESTS: Mapping[str, type] = {
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "publish": Publish,
    "become_publisher": BecomePublisher,
    "become_broker": BecomeBroker,
    "become_candidate": BecomeCandidate,
}
"""The requests that scenario files, scripts and the command line have names for."""


USUAL_REQUESTS: tuple[type, ...] = (Subscribe, Unsubscribe, Publish, BecomePublisher, BecomeBroker)
"""Those that a protocol understands if it does not say otherwise."""


# --- Notifications and facts: the values of ``Deliver`` and ``Report`` -----------------------------------------------


class Notified(msgspec.Struct, frozen=True, gc=False):
    """An event for this node's application, once, with all of its subscriptions that match."""

    event: Event
    subscriptions: tuple[str, ...]


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A subscription has heard from all neighbours; ``published`` tells whether any publisher was found."""

    subscription: str
    published: bool


class Unpublished(msgspec.Struct, frozen=True, gc=False):
    """The last publisher that this subscription was connected with is gone."""

    subscription: str


class Elected(msgspec.Struct, frozen=True, gc=False):
    """This node stood by for the type, and publishes it from now on."""

    type: str


class StoodDown(msgspec.Struct, frozen=True, gc=False):
    """There is another publisher again; this node stands by as before."""

    type: str


class Left(msgspec.Struct, frozen=True, gc=False):
    """What ``Leave`` asked for is done: others do the node's work, and it can be stopped."""


class Missed(msgspec.Struct, frozen=True, gc=False):
    """A gap: one publisher's events after one number and up to another are lost, as far as they were for this node."""

    publisher: int
    after: int
    upto: int


class LimitReached(msgspec.Struct, frozen=True, gc=False):
    """A limit of the protocol's settings was met, or ``filter`` rules, and what was refused because of it."""

    limit: str
    refused: str


# --- The description of a protocol -----------------------------------------------------------------------------------


class ProtocolError(RecadoError):
    """A protocol that does not exist, or that cannot be used as was asked; ``setting`` names the setting at fault."""

    def __init__(self, message: str, setting: str = "") -> None:
        super().__init__(message)
        self.setting = setting


class NoSettings(msgspec.Struct, frozen=True):
    """The settings of a protocol that has none."""


MakeMachine: TypeAlias = Callable[[NodeId], Machine]


def accept(message: Any) -> None:
    """The check of a protocol whose messages need none beyond their form."""


def describe_roles(state: Mapping[str, Any]) -> list[str]:
    """What a node is, in words, from ``publishes`` and ``subscriptions`` of what its machine's ``inspect`` gives."""
    roles = [f"publishes {', '.join(state['publishes'])}"] if state.get("publishes") else []
    roles += [f"stands by for {', '.join(state['candidate'])}"] if state.get("candidate") else []
    roles += [f"subscribed: {', '.join(state['subscriptions'])}"] if state.get("subscriptions") else []
    return roles or ["a broker: neither publishes nor subscribes"]


class Sketch(msgspec.Struct, frozen=True):
    """What a picture shows of a node at one time. Nodes and subscriptions go by their names as text."""

    role: str = ""
    """One or two words, of which a protocol has few; a picture has a colour for each."""
    ties: tuple[str, ...] = ()
    """Nodes to which a line is drawn whether or not anything is sent, such as the father in a family."""
    holds: Mapping[str, tuple[str, ...]] = {}
    """Subscriptions of which it keeps something (a copy, a row), and the next nodes to the subscriber that it knows."""
    names: Mapping[str, str] = {}
    """What this node's own subscriptions are called in ``holds``, by their ids, where that is not the id."""


def sketch_node(state: Mapping[str, Any]) -> Sketch:
    """A node by the keys of ``inspect`` that most protocols have: its part in the trees that ``tables`` describe."""
    holds = {
        str(id): tuple(str(node) for node in row.get("next", ()) if node != state.get("node"))
        for table in state.get("tables", {}).values()
        for id, row in table.items()
    }
    role = state.get("role") or _part_played(
        bool(state.get("publishes")), bool(state.get("subscriptions")), bool(holds)
    )
    return Sketch(role, (), holds)


def _part_played(publishes: bool, subscribes: bool, relays: bool) -> str:
    if publishes:
        return "publisher and subscriber" if subscribes else "publisher"
    return "subscriber" if subscribes else "relay" if relays else "idle"


def no_sections(state: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return {}


def is_joined(state: Mapping[str, Any]) -> bool:
    """A node of most protocols is a part of the overlay from the start."""
    return True


def no_way(stimulus: Stimulus, settings: Any) -> None:
    """Messages of most protocols do not tell where an event comes from."""


class OverlayProtocol(msgspec.Struct, frozen=True, kw_only=True):
    """All that the overlay, the simulator and the command line need to know of a protocol.

    What is right for a delivery follows from the requests alone, so the simulator has one oracle for all protocols.
    ``inspect`` of a machine is shown as it is; engines and views know four of its keys, each of which may be absent:
    ``role`` (one word), ``publishes`` (types), ``subscriptions`` (by id) and ``tables`` (rows by name, in tables by
    name; a row with the nodes ``next`` and ``origin`` is drawn as a part of a tree).
    """

    name: str
    make: Callable[[Any, Topology | None], MakeMachine]
    """From settings to a function that makes the machine of a node. The topology is None for a live node."""
    settings: type[msgspec.Struct] = NoSettings
    """A struct with a default for every field; its types and its ``__post_init__`` are the limits."""
    messages: Any = None
    """The union of the structs that machines send to each other; not needed in simulation alone."""
    check: Callable[[Any], None] = accept
    """Raises a RecadoError for a message of the right form that a machine should not see."""
    common: tuple[str, ...] = ()
    """Settings that have to be the same in the whole overlay; nodes in which they differ do not link."""
    requests: tuple[type, ...] = USUAL_REQUESTS
    """What the machines can be asked. Without ``BecomePublisher``, every node may publish everything."""
    live: bool = True
    """Can it run over TCP? Not if it has to know the whole topology, or cannot stand links that come and go."""
    reliable: bool = True
    """May it run over ``recado.protocols.reliable``, for networks that lose, repeat or reorder messages?"""
    contact: Literal["links", "anyone"] = "links"
    """Whom a machine sends to: neighbours on links that are reported up and down, or any node that it has heard of.

    In the second case the engine tells it of messages that did not arrive (``SendFailed``). ``Started.neighbours`` are
    then peers to begin with; a machine that starts with none is the first of its overlay. A live node's name is to its
    machine the endpoint ``HOST:PORT`` at which it listens.
    """
    needs_radio: bool = False
    """Its machines broadcast to whoever is in range, so that there is nothing for them to do on links."""
    settle_seconds: float = 0.0
    """For machines that are never quiet, since they look after each other: so long after a request all is in place."""
    size_of: Callable[[Any], Callable[[Any], int]] | None = None
    """From settings to the size of a message that a simulation counts; None: that of its frame on the wire."""
    traffic_class: Callable[[Any], str] | None = None
    """As what a transmission of a message is counted on a radio; None: by the name of its type."""
    way: Callable[[Stimulus, Any], tuple[str | int, int] | None] = no_way
    """Of the message that made a node deliver: who published, and over how many hops it came. None if it does not tell.

    From the stimulus and the settings of the node.
    """
    roles: Callable[[Mapping[str, Any]], list[str]] = describe_roles
    """What a node is, in words, from what its machine's ``inspect`` gives."""
    sections: Callable[[Mapping[str, Any]], Mapping[str, Mapping[str, Any]]] = no_sections
    """What else a person may want to see of a node, by title and name, from what its machine's ``inspect`` gives."""
    sketch: Callable[[Mapping[str, Any]], Sketch] = sketch_node
    """What a picture shows of a node, from what its machine's ``inspect`` gives."""
    joined: Callable[[Mapping[str, Any]], bool] = is_joined
    """Has the node become a part of the overlay? From what its machine's ``inspect`` gives."""

    def understands(self, request: str) -> bool:
        """Can the machines be asked this? ``request`` is a name of ``REQUESTS``."""
        return REQUESTS[request] in self.requests

    def require(self, request: str) -> None:
        """Raise a ProtocolError if the machines cannot be asked this."""
        if not self.understands(request):
            known = ", ".join(name for name in REQUESTS if self.understands(name))
            raise ProtocolError(f"protocol {self.name!r} has no request {request!r}; it has {known}")

    def configure(self, options: Mapping[str, Any]) -> ConfiguredProtocol:
        """The protocol with these settings, the others as usual; a ProtocolError if there is no such setting or value.

        ``options`` is plain data, as it comes out of a TOML file.
        """
        fields = self.settings.__struct_fields__
        for name in options:
            if name not in fields:
                known = f"it has {', '.join(fields)}" if fields else "it has none"
                raise ProtocolError(f"protocol {self.name!r} has no setting {name!r}; {known}", name)
        try:
            settings = msgspec.convert(options, self.settings)
        except msgspec.ValidationError as error:
            reason, _, place = str(error).partition(" - at `$")
            raise self._bad_setting(reason, place.strip("`.")) from None
        except RecadoError as error:
            raise self._bad_setting(str(error), "") from None
        return ConfiguredProtocol(self, settings)

    def _bad_setting(self, reason: str, setting: str) -> ProtocolError:
        which = f"setting {setting!r}" if setting else "the settings"
        return ProtocolError(f"{which} of protocol {self.name!r}: {reason}", setting)


class ConfiguredProtocol:
    """A protocol with its settings chosen. ``name`` is what nodes must agree on before they link."""

    def __init__(self, protocol: OverlayProtocol, settings: msgspec.Struct) -> None:
        self.protocol, self.settings = protocol, settings
        usual = protocol.settings()
        chosen = [(name, getattr(settings, name), getattr(usual, name)) for name in protocol.common]
        self.name = " ".join([protocol.name, *(f"{name}={value}" for name, value, other in chosen if value != other)])

    def machines(self, topology: Topology | None = None) -> MakeMachine:
        """A function that makes the machine of a node; without a topology, of a live one.

        Raises a ProtocolError if the protocol cannot run live, or cannot have these settings on this topology.
        """
        if topology is None:
            self.require_live()
        return self.protocol.make(self.settings, topology)

    def require_live(self) -> None:
        """Raise a ProtocolError if the protocol can only be simulated."""
        if not self.protocol.live or self.protocol.messages is None:
            raise ProtocolError(
                f"protocol {self.protocol.name!r} runs in the simulator only, not on a live overlay; "
                "see: recado sim run --help"
            )

    def encode(self, message: Any) -> bytes:
        return encode(message)

    def decode(self, payload: bytes) -> Any:
        """The message in a payload; a WireError if it is none of this protocol."""
        try:
            message = _decoder(self.protocol.messages)(payload)
            self.protocol.check(message)
        except (RecadoError, RecursionError) as error:
            raise WireError(f"a frame that is no message of protocol {self.name!r}: {error}") from None
        return message


@lru_cache(maxsize=64)
def _decoder(messages: Any) -> Callable[[bytes], Any]:
    return decoder(messages)
