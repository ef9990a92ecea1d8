"""A data folder that an earlier Recado left when it was killed, opened by this one.

The folder was made by a service of 17 November 2026, before its parts were rebuilt: mailboxes of five notifications,
two durable subscriptions of Ana's (``cheap``: Price < 25, ``levels``: level > 3), eight ticks and one reading
published while she was away, then kill -9.
"""

from __future__ import annotations

import asyncio
import tarfile
from datetime import UTC, datetime
from pathlib import Path

from recado.model.codec import read_event
from recado.server.permissions import Principal
from server.engine_kit import Clock, attached, opened, settled

FOLDER = Path(__file__).parent / "data" / "folder-of-november-2026.tar.gz"
ANA = Principal("ana")


def test_what_was_kept_is_there_and_the_service_goes_on(tmp_path):
    with tarfile.open(FOLDER) as archive:
        archive.extractall(tmp_path / "data", filter="data")

    async def run():
        clock = Clock()
        clock.now = datetime(2026, 11, 18, 2, 30, tzinfo=UTC)
        engine = await opened(tmp_path / "data", clock, mailbox={"length": 5})
        try:
            assert sorted(one.id for one in engine.subscriptions(ANA, "ana")) == ["cheap", "levels"]
            phone = await attached(engine)
            assert phone.ids == ["tick-4", "tick-5", "tick-6", "tick-7", "level-1"]
            assert [notice.count for notice in phone.notices] == [4]  # the oldest, which the mailbox had no room for
            engine.acknowledge(phone, phone.got[-1].nid)
            await engine.publish(ANA, [read_event(b'{"id": "new", "type": "Tick", "Price": 24}')])
            await settled(engine)
            assert phone.ids[-1] == "new"
            assert phone.got[-1].nid > phone.got[-2].nid
        finally:
            await engine.close()

    asyncio.run(run())
