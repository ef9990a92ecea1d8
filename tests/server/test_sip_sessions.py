"""A device has one SIP session: what it left behind when it was switched off does not stay (15.4-A17)."""

import asyncio

from server.running import until
from server.test_sip import client_at, sip_serving, states, switch_off


def test_a_device_that_starts_anew_leaves_no_session_behind(tmp_path):
    async def main():
        async with sip_serving(tmp_path) as server:
            for turn in range(3):
                client, line = client_at(server, f"127.0.0.{turn + 2}")
                async with client:
                    await until(lambda: states(server) == {"phone": True})
                    assert len(server._sip._consumers) == 1
                    switch_off(line)
                    (consumer,) = server._sip._consumers.values()
                    consumer.link.post_ping()
                    await until(lambda: states(server) == {"phone": False})
                assert server.gateway.connections == len(server._sip._consumers) == 1

    asyncio.run(main())
