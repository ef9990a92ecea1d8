"""Matching against more subscriptions than one executor should hold.

``build_partitions`` places every subscription of a DataFrame in exactly one partition and writes a folder;
``match_partitioned`` sends each event only to the partitions that can match it. The result is that of one index over
all subscriptions.

- ``access``: the conditions that an event must meet for a filter to match at all
- ``plan``: which of them each subscription is found by, and where it is placed
- ``router``: which partitions an event has to visit, read off what they really hold
- ``folder``: the files; ``build``: the Spark job that writes them; ``match``: the one that reads them
"""

from recado.pipeline.partitioned.build import build_partitions
from recado.pipeline.partitioned.folder import PartitionedSet
from recado.pipeline.partitioned.match import match_partitioned

__all__ = ["PartitionedSet", "build_partitions", "match_partitioned"]
