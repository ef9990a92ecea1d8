"""Reads, follows and appends to logs in a session of its own, and prints what it found; test_elsewhere.py starts it."""

import argparse
import json

from recado.pipeline.errors import PipelineError, user_errors
from recado.pipeline.session import start_session
from recado.pipeline.source import read_log, register


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--remote")
    parser.add_argument("log")
    parser.add_argument("folder")
    given = parser.parse_args()
    spark = start_session("source-elsewhere", given.master, remote=given.remote)
    register(spark)
    source = spark.read.format("recado").option("rowsPerPartition", 20)
    read = source.schema("position long, price double").load(given.log).where("price >= 5")
    print(json.dumps({"read": sorted(row["position"] for row in read.collect())}))
    print(json.dumps({"whole": sorted(row["position"] for row in read_log(spark, given.log).collect())}))

    stream = spark.readStream.format("recado").option("maxRowsPerBatch", 25).load(given.log)
    writer = stream.writeStream.format("recado").option("checkpointLocation", f"{given.folder}/checkpoint")
    writer.trigger(availableNow=True).start(f"{given.folder}/copy").awaitTermination()
    copied = spark.read.format("recado").load(f"{given.folder}/copy")
    print(json.dumps({"copied": [row["id"] for row in copied.orderBy("position").collect()]}))
    try:
        with user_errors():
            spark.read.format("recado").load(f"{given.folder}/nothing").count()
    except PipelineError as error:
        print(json.dumps({"error": str(error)}))
    spark.stop()


if __name__ == "__main__":
    main()
