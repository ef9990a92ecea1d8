"""TLS and tokens: the client proves who it is, and checks whom it talks to."""

import asyncio
import ssl

import pytest
import trustme

from client.service import collect, connect, port_of
from recado.client import NotAllowed, Unreachable
from recado.server.config import make_config
from recado.server.server import Server
from recado.server.tokens import add_token


def test_tls_and_a_token(tmp_path):
    authority = trustme.CA()
    authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    (tmp_path / "both.pem").chmod(0o600)
    both = str(tmp_path / "both.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    tokens = tmp_path / "tokens"
    token = add_token(tokens, "phone", "ana")
    http = {"port": 0, "certificate": both, "key": both}
    access = {"tokens": str(tokens), "anonymous": False}

    async def main():
        config = make_config({"data": str(tmp_path / "data"), "http": http, "access": access})
        async with Server.start(config) as server:
            place = f"localhost:{port_of(server)}"
            async with connect(f"recados://:{token}@{place}", user=None, tls=trusting) as ana:
                assert ana.user == "ana"
                every = await ana.subscribe().ready()
                await ana.publish("Tick")
                assert len(await collect(every, 1)) == 1
            with pytest.raises(Unreachable, match="certificate"):
                async with connect(f"recados://:{token}@{place}", user=None, timeout=0):
                    pass
            with pytest.raises(NotAllowed, match="token"):
                async with connect(f"recados://{place}", user="ana", tls=trusting):
                    pass

    asyncio.run(main())
