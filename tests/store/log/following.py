"""A program that follows a log from another process and prints what it got: ``python following.py <folder> <end>``.

It stops at the position ``end`` and prints, as JSON, the number of rows, whether they were dense apart from what
retention removed, and how much that was.
"""

from __future__ import annotations

import json
import sys

from recado.store.log import Damage, LogReader

folder, end = sys.argv[1], int(sys.argv[2])
reader = LogReader(folder)
print("ready", flush=True)
expired: list[Damage] = []
position = rows = wrong = 0
while position < end:
    reached = min(reader.extent().end, end)
    before = len(expired)
    for batch in reader.read(position, reached, batch_rows=37, on_damage=expired.append):
        for damage in expired[before:]:
            wrong += damage.first != position or not damage.expired
            position = damage.end
        before = len(expired)
        found = batch.column("position").to_pylist()
        wrong += found != list(range(position, position + len(found)))
        position += len(found)
        rows += len(found)
    position = max(position, max((damage.end for damage in expired[before:]), default=0))
print(json.dumps({"rows": rows, "wrong": wrong, "expired": sum(damage.end - damage.first for damage in expired)}))
