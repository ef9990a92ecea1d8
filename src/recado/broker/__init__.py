"""The broker: when a matching event becomes a notification, for whom it waits, and to whom it goes. Pure; instants are
arguments.
"""

from recado.broker.core import Broker
from recado.broker.state import Bounds, BrokerSettings

__all__ = ["Bounds", "Broker", "BrokerSettings"]
