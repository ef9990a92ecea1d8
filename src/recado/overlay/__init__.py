"""The live overlay: any machine of ``recado.protocols`` over TCP, as the simulator runs it in virtual time.

``Node`` is all that a program needs to take part; ``recado node`` and ``recado overlay`` do the same from a command
line. From the bytes upward: ``hello`` (frames and the hello, pure), ``link`` and ``connections`` (one connection, and
all of a node), ``links`` (lasting ones to neighbours) and ``contacts`` (brief ones to anybody), ``driver`` (effects),
``node``, ``control`` and ``client`` (the socket that programs use, and its other end), ``launch`` (the nodes of a
topology file). ``addresses`` and ``limits`` are below all of them.
"""

from recado.overlay.addresses import Tls, read_key
from recado.overlay.limits import OVERLAY_LIMITS, OverlayError, OverlayLimits
from recado.overlay.node import Node
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
