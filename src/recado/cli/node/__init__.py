"""``recado node``: run a node of an overlay, and use one that runs on this machine."""
