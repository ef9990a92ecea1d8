"""A job for a Spark that runs in other processes: match the sample and print the pairs as JSON.

    python elsewhere.py --master spark://127.0.0.1:7077     python elsewhere.py --remote sc://127.0.0.1:15002

It is a program of its own because a process has only one Spark.
"""

import argparse
import json
import shutil
from pathlib import Path

from pyspark.sql import functions as F

from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.jobs import run_match
from recado.pipeline.match import match
from recado.pipeline.partitioned import build_partitions, match_partitioned
from recado.pipeline.readers import read_events
from recado.pipeline.session import start_session
from recado.pipeline.sets import SubscriptionSet
from recado.pipeline.stream import start_stream
from samples import EVENTS, SUBSCRIPTIONS, subscriptions

WAYS = ["mapped", "shipped", "partitioned", "default", "stream", "lost", "heap"]


def stream(spark, subscription_set, folder, shared):
    """Two micro-batches with two versions of the set; what executors read and write is in ``shared``."""
    (shared / "in").mkdir(parents=True)
    shutil.copy(EVENTS, shared / "in" / "1.ndjson")

    def run():
        start_stream(
            spark.readStream.text(f"file://{shared}/in"), subscription_set, shared / "out", Path(folder) / "state",
            json="value", constraints=False, trigger={"availableNow": True},
        ).awaitTermination()  # fmt: skip

    run()
    subscription_set.change(remove=[one.id for one in subscriptions()])
    shutil.copy(EVENTS, shared / "in" / "2.ndjson")
    run()
    return spark.read.parquet(f"file://{shared}/out")


def lost(spark, folder):
    """What is said of a result in a folder that executors have at the same path, and another one."""
    try:
        run_match(spark, f"{folder}/set", read_events(spark, EVENTS), f"{folder}/lost")
    except PipelineError as error:
        return str(error)
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--remote")
    parser.add_argument("--folder")
    parser.add_argument("--shared", type=Path)
    parser.add_argument("--way", choices=WAYS, nargs="+")
    parser.add_argument("--conf", action="append", default=[])
    arguments = parser.parse_args()
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    conf |= dict(setting.split("=", 1) for setting in arguments.conf)
    spark = start_session("elsewhere", arguments.master, conf, arguments.remote)
    events = spark.read.text(EVENTS).repartition(4)
    subscription_set = SubscriptionSet(f"{arguments.folder}/set")
    subscription_set.publish(subscriptions())
    for way in arguments.way:
        if way == "lost":
            print(json.dumps({"way": way, "pairs": [lost(spark, arguments.folder)]}))
            continue
        if way == "heap":
            found = spark.range(2, numPartitions=1).select(
                F.repeat(F.lit("x"), F.lit(600_000_000) + F.col("id").cast("int"))
            )
        elif way == "partitioned":
            rows = spark.read.text(SUBSCRIPTIONS)
            partitioned = build_partitions(rows, f"{arguments.folder}/parts", partitions=3)
            found = match_partitioned(events, partitioned, json="value")
        elif way == "stream":
            found = stream(spark, subscription_set, arguments.folder, arguments.shared)
        else:
            ship = {"mapped": False, "shipped": True}.get(way)
            found = match(events, subscription_set, json="value", ship=ship)
        try:
            with user_errors():
                pairs = sorted((row.event_id, row.subscription_id) for row in found.collect())
        except PipelineError as error:
            pairs = [str(error)]
        print(json.dumps({"way": way, "pairs": pairs}))
    spark.stop()


if __name__ == "__main__":
    main()
