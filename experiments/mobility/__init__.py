"""Scenarios and test vectors derived from the mobility document, in simulated time."""
