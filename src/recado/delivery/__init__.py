"""Delivery policy: when a matching event becomes a notification. Pure; instants are arguments."""
