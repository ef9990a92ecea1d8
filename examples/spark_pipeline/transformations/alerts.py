"""Notifications as a streaming table, and who got how many as a view that each run brings up to date."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from recado.pipeline import matching

spark = SparkSession.active()
EVENTS = str(spark.conf.get("spark.alerts.events"))
ALERTS = str(spark.conf.get("spark.alerts.set"))

# Spark analyses no plan inside of a query function, and matching asks for the columns; so it is called before.
events = spark.readStream.schema(spark.read.parquet(EVENTS).schema).parquet(EVENTS)
matched = events.transform(matching(ALERTS))


@dp.table(comment="a row for each event that reached a subscription")
def found() -> DataFrame:
    return matched


@dp.materialized_view(comment="the subscriptions by the number of their notifications")
def busiest() -> DataFrame:
    return spark.read.table("found").groupBy("subscription_id", "owner").count()
