"""The protocols that the trees are compared with: sections 3.1 to 3.8 of the tree document. docs/baselines.md explains.

They answer the requests of ``recado.protocols.pubsub`` on the machine contract, as the trees do.
"""

from recado.protocols.baselines.catalogue import BASELINES, PROTOCOLS, make_baseline
from recado.protocols.baselines.node import MESSAGES, BaselineError

__all__ = ["BASELINES", "MESSAGES", "PROTOCOLS", "BaselineError", "make_baseline"]
