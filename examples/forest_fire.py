"""A fire in a forest of sensors: a real process for each, the air between them, a gateway, a service, and Spark.

The sensors of ``forest_fire.toml`` publish temperature and humidity. Ana asks an event service for what is hot and dry.
The gateway at the tower takes her subscription into the network, so that only such samples travel, and puts them into
the service's log, from which Spark makes a report.

Run: ``python examples/forest_fire.py [FOLDER]``, ``--no-spark`` without the report, ``--steps 2 --factor 5`` for less.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import shutil
from contextlib import suppress
from pathlib import Path

import msgspec

from recado.client import connect
from recado.filters.evaluate import matches
from recado.filters.expression import parse
from recado.model.event import Event
from recado.radio.client import SceneClient
from recado.radio.gateway import Gateway
from recado.radio.launch import open_scene, scene_folder, start, stop
from recado.radio.scene import Scene, check_scene, read_scene
from recado.server.config import make_config
from recado.server.server import Server
from recado.server.tokens import add_token

WANTED = "temperature > 60 and humidity < 30"
SINK = "tower"
SPREAD_METRES = 180.0
"""How much further the fire is with every step; it begins in the corner of the forest."""
BETWEEN_SECONDS = 1.0
"""From one step to the next, in the protocol's time."""
PATIENCE_SECONDS = 60.0
SCHEMA = "id string, type string, accepted_at timestamp, temperature double, humidity double, node string, hops long"


def sense(scene: Scene, node: str, step: int) -> Event:
    """What a sensor measures: hot and dry behind the front of the fire, smoke ahead of it, else a summer's day."""
    ahead = math.dist((0.0, 0.0), scene.places()[node]) - SPREAD_METRES * step
    burns, near = ahead <= 0, ahead < SPREAD_METRES
    temperature, humidity = 90.0 if burns else 45.0 if near else 28.0, 8.0 if burns else 35.0
    return Event(
        f"{node}-{step}",
        "Sample",
        source=f"/sensors/{node}",
        attributes={"temperature": temperature, "humidity": humidity},
    )


async def burn(scene: Scene, client: SceneClient, steps: int) -> list[str]:
    """Let the fire spread and every sensor publish in every step; the ids of the samples that Ana wants."""
    wanted = parse(WANTED)
    due = []
    for step in range(steps):
        for node in client.nodes:
            if node == SINK:
                continue
            sample = sense(scene, node, step)
            due += [sample.id] if matches(wanted, sample) else []
            record = {"id": sample.id, "type": sample.type, "source": sample.source, **sample.attributes}
            await asyncio.to_thread(client.ask, node, "publish", event=record)
        await asyncio.sleep(BETWEEN_SECONDS * scene.factor)
    return due


async def play(scene: Scene, out: Path, steps: int) -> None:
    folder = scene_folder(scene.scene)
    out.mkdir(parents=True, mode=0o700)
    token = add_token(out / "tokens", "gateway", "gateway", admin=True)
    config = make_config({"data": str(out), "http": {"port": 0}, "logging": {"level": "warning"}})
    async with Server.start(config) as server:
        await server.engine.when_loaded()
        service = server.url.replace("://", f"://gateway:{token}@")
        gateway = Gateway(folder / f"{SINK}.radio", service, scene.types, folder / "state" / "gateway.json", 0.2)
        running = asyncio.create_task(gateway.run())
        async with connect(server.url.replace("://", "://ana@")) as ana:
            alarms = await ana.subscribe(WANTED, type="Sample", id="fire").ready()
            while not gateway.filters:
                await asyncio.sleep(0.05)
            print(f"the network is asked for: {', '.join(gateway.filters)}")
            with open_scene(scene.scene) as client:
                await asyncio.to_thread(client.wait_until_quiet)
                due = await burn(scene, client, steps)
                got: dict[str, int] = {}
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE_SECONDS):
                        while len(got) < len(due):
                            alarm = await anext(alarms)
                            got[alarm.id] = alarm["hops"]
                sent = client.transmissions()
            print(f"{steps * (len(scene.places()) - 1)} samples, {len(due)} of them hot and dry")
            print(f"Ana got {len(got)}, over {min(got.values(), default=0)} to {max(got.values(), default=0)} hops")
            stored = [members["id"] async for _, members in ana.replay()]
        print(f"the log has {len(stored)}, each once: {len(stored) == len(set(stored))}")
        print(f"transmissions: {', '.join(f'{kind} {count}' for kind, count in sorted(sent.items()))}")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def report(out: Path) -> None:
    """What Spark says about the log, as a page."""
    from recado.pipeline.match import match  # noqa: PLC0415  # Spark is slow to import
    from recado.pipeline.report import run_report  # noqa: PLC0415
    from recado.pipeline.session import start_session  # noqa: PLC0415
    from recado.pipeline.source import register  # noqa: PLC0415

    spark = start_session()
    try:
        register(spark)
        events = spark.read.format("recado").schema(SCHEMA).load(str(out / "log"))
        events = events.withColumnRenamed("accepted_at", "time")
        asked = [
            ("fire", WANTED, "Sample", "user:ana@example.org"),
            ("far", "hops > 1", "Sample", "user:ana@example.org"),
        ]
        subscriptions = spark.createDataFrame(asked, "id string, filter string, type string, owner string")
        found = match(events, subscriptions)
        for row in found.groupBy("subscription_id").count().orderBy("subscription_id").collect():
            print(f"on Spark, {row['subscription_id']}: {row['count']}")
        run_report(spark, subscriptions, events, found, out / "report", "A fire in the forest")
        print(f"report: {out / 'report' / 'index.html'}")
    finally:
        spark.stop()


def main(arguments: list[str] | None = None) -> None:
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("folder", nargs="?", type=Path, default=Path("build/forest_fire"))
    reader.add_argument("--scene", type=Path, default=Path(__file__).with_name("forest_fire.toml"))
    reader.add_argument("--steps", type=int, default=4)
    reader.add_argument("--factor", type=float)
    reader.add_argument("--no-spark", action="store_true")
    chosen = reader.parse_args(arguments)
    out: Path = chosen.folder.absolute()
    shutil.rmtree(out, ignore_errors=True)
    scene = read_scene(chosen.scene)
    scene = check_scene(msgspec.structs.replace(scene, factor=chosen.factor or scene.factor))
    started = start(scene)
    print(f"{len(started)} nodes run, and the air between them")
    try:
        asyncio.run(play(scene, out, chosen.steps))
    finally:
        stop(scene_folder(scene.scene))
    if not chosen.no_spark:
        report(out)


if __name__ == "__main__":
    main()
