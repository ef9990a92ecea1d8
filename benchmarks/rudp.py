"""RUDP on loopback, both sides in one process: messages a second one way, and the time of one there and back.

python -m benchmarks.rudp [seconds]
"""

import asyncio
import sys
import time

from recado.net import RudpEndpoint
from recado.protocols.rudp import PROFILES, QueueFull


async def measure(name, size, seconds):
    a, b = (RudpEndpoint(("127.0.0.1", 0), PROFILES[name]) for _ in range(2))
    got = [0]

    def count(_):
        got[0] += 1

    near, far = a.new_conn_id(), b.new_conn_id()
    link = a.open(b.address, near, far, print, print)
    b.open(a.address, far, near, count, print)
    message, end = bytes(size), time.perf_counter() + seconds
    started, cpu_started = time.perf_counter(), time.process_time()
    while time.perf_counter() < end:
        try:
            for _ in range(100):
                link.post(message)
        except QueueFull:
            pass
        await asyncio.sleep(0)
    await link.ping()
    took, cpu = time.perf_counter() - started, time.process_time() - cpu_started
    counters = a.counters()
    datagrams = 2 * (counters.sent + counters.resent)
    print(
        f"{name:8} {size:>7,} B: {got[0] / took:>7,.0f} messages/s, {got[0] / cpu:>7,.0f} a CPU second, "
        f"{datagrams / cpu:>7,.0f} datagrams a CPU second, {got[0] * size / took / 1e6:>6.1f} MB/s, "
        f"{counters.resent} resent, round trip {link.rtt_seconds * 1e6:,.0f} us"
    )
    a.close()
    b.close()


async def main(seconds):
    for name in ("classic", "fast"):
        for size in (200, 1200, 64_000):
            await measure(name, size, seconds)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 2.0))
