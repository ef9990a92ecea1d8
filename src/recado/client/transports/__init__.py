"""The lines of the client: WebSocket, and SIP with RUDP."""
