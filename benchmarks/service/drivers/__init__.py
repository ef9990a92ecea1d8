"""The systems' own Python clients behind one face."""

from __future__ import annotations

from benchmarks.service.drivers.base import Driver


def make_driver(system: str, port: int) -> Driver:
    """The driver of a system; its client library is imported here and not before."""
    if system == "nats":
        from benchmarks.service.drivers.jetstream import JetStream  # optional

        return JetStream(port)
    if system == "mosquitto":
        from benchmarks.service.drivers.mqtt import Mqtt  # optional

        return Mqtt(port)
    from benchmarks.service.drivers.recado import Recado  # only where it is used

    return Recado(port)
