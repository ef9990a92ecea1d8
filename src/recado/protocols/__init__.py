"""Protocols as pure machines: ``machine`` is the contract, and each protocol is a package beside it."""
