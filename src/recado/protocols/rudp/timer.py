"""The retransmission timer (the mobility document, section 5.3, after Stevens): smoothed round trip and its deviation.

Every transmission has its own ``ts``, which the ACK echoes, so a sample is never ambiguous. The back-off is a packet's
own (``sending``): its waiting time is ``rto * BACKOFF**attempts``, which for one packet in flight is the document's
growing ``rto``.
"""

from __future__ import annotations

from recado.protocols.rudp.settings import RudpSettings


class RttEstimator:
    def __init__(self, settings: RudpSettings) -> None:
        self._settings = settings
        self.srtt = 0.0
        self.rttvar = settings.rto_init_seconds / 4
        self.rto = settings.rto_init_seconds

    def sample(self, rtt_seconds: float) -> None:
        d = rtt_seconds - self.srtt
        self.srtt += d / 8
        self.rttvar += (abs(d) - self.rttvar) / 4
        self.rto = min(max(self.unclamped, self._settings.rto_min_seconds), self._settings.rto_max_seconds)

    @property
    def unclamped(self) -> float:
        return self.srtt + 4 * self.rttvar

    def wait_seconds(self, attempts: int) -> float:
        """How long to wait for the ACK of a packet that was retransmitted ``attempts`` times."""
        if not attempts:
            return self.rto
        return min(self.rto * self._settings.backoff**attempts, self._settings.rto_max_seconds)
