"""Super nodes: filtered dissemination among peers that come and go, with one representative a filter.

``SuperNode`` is the machine of one peer. The modules follow the protocol: ``members`` (views and shared tables),
``membership`` (the layer in which everybody knows everybody), ``family`` (joining by filter, keep-alive, promotion,
stand-bys), ``enquiry`` (the document's first way to know brothers), ``sizer``, ``dissemination`` and ``repair``
(events). The state that they share is in ``state``.
"""

from recado.protocols.supernodes.members import Home
from recado.protocols.supernodes.messages import MESSAGES, cause_of, sizer_of
from recado.protocols.supernodes.node import PROTOCOL, SuperNode
from recado.protocols.supernodes.settings import SettingsError, SuperNodeSettings
from recado.protocols.supernodes.state import SuperNodeError

__all__ = [
    "MESSAGES",
    "PROTOCOL",
    "Home",
    "SettingsError",
    "SuperNode",
    "SuperNodeError",
    "SuperNodeSettings",
    "cause_of",
    "sizer_of",
]
