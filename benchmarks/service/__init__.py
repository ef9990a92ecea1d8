"""The event service against brokers that people run: nats-server with JetStream and mosquitto, on loopback."""
