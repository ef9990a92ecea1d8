"""The transports of the client: WebSocket, and SIP with RUDP."""
