"""The service over WebSocket: one connection is one leg of a device, and carries everything a session can do."""
