"""Sensor network: content-based publish/subscribe over radio, without a broker and without positions.

``SensorNode`` is the machine of one node. Its layers are modules, from the bottom: ``pampa`` (broadcast with few
relays), ``pcache`` (a store of which every node keeps a part), ``aodv`` (routes), ``delivery`` (publish/subscribe on
top of them). What they share is in ``context``, what can be chosen in ``settings``.
"""

from recado.protocols.sensors.messages import (
    MESSAGES,
    Collected,
    Find,
    Found,
    SensorError,
    check_message,
    size_of,
    traffic_class,
)
from recado.protocols.sensors.node import PROTOCOL, SensorNode
from recado.protocols.sensors.settings import (
    AODV_PROFILES,
    PAMPA_PROFILES,
    AodvParameters,
    PampaParameters,
    SensorSettings,
    SettingsError,
)

__all__ = [
    "AODV_PROFILES",
    "MESSAGES",
    "PAMPA_PROFILES",
    "PROTOCOL",
    "AodvParameters",
    "Collected",
    "Find",
    "Found",
    "PampaParameters",
    "SensorError",
    "SensorNode",
    "SensorSettings",
    "SettingsError",
    "check_message",
    "size_of",
    "traffic_class",
]
