"""The live overlay: any machine of ``recado.protocols`` over TCP, as the simulator runs it in virtual time.

``Node`` is all that a program needs to take part; ``recado node`` and ``recado overlay`` do the same from a command
line. From the bytes upward: ``frames`` and ``hello`` (pure), ``link`` and ``links`` (connections), ``driver``
(effects), ``node``, ``control`` (the socket that programs use), ``launch`` and ``watch`` (many nodes on one machine).
"""

from recado.overlay.limits import OVERLAY_LIMITS, OverlayError, OverlayLimits
from recado.overlay.node import Node
from recado.overlay.security import Tls, read_key
from recado.overlay.streams import Gap, Stream
from recado.protocols.pubsub import Notified, Settled, Unpublished

__all__ = [
    "OVERLAY_LIMITS",
    "Gap",
    "Node",
    "Notified",
    "OverlayError",
    "OverlayLimits",
    "Settled",
    "Stream",
    "Tls",
    "Unpublished",
    "read_key",
]
