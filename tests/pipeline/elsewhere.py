"""A job for a Spark that runs in other processes: match the sample and print the pairs as JSON.

    python elsewhere.py --master spark://127.0.0.1:7077     python elsewhere.py --remote sc://127.0.0.1:15002

It is a program of its own because a process has only one Spark.
"""

import argparse
import json

from recado.pipeline.match import match
from recado.pipeline.partitioned import build_partitions, match_partitioned
from recado.pipeline.session import start_session
from recado.pipeline.sets import SubscriptionSet
from samples import EVENTS, SUBSCRIPTIONS, subscriptions


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--remote")
    parser.add_argument("--folder")
    parser.add_argument("--way", choices=["mapped", "shipped", "partitioned"], nargs="+")
    arguments = parser.parse_args()
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    spark = start_session("elsewhere", arguments.master, conf, arguments.remote)
    events = spark.read.text(EVENTS).repartition(4)
    subscription_set = SubscriptionSet(f"{arguments.folder}/set")
    subscription_set.publish(subscriptions())
    for way in arguments.way:
        if way == "partitioned":
            rows = spark.read.text(SUBSCRIPTIONS)
            partitioned = build_partitions(rows, f"{arguments.folder}/parts", partitions=3)
            found = match_partitioned(events, partitioned, json="value")
        else:
            found = match(events, subscription_set, json="value", ship=way == "shipped")
        pairs = sorted((row.event_id, row.subscription_id) for row in found.collect())
        print(json.dumps({"way": way, "pairs": pairs}))
    spark.stop()


if __name__ == "__main__":
    main()
