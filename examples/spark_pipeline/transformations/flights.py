"""A streaming table that is filled from a topic, as a member of a group, and a view of it."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table
def flights() -> DataFrame:
    """Return the topic's records: each run appends those that came since the last one."""
    return (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "flights")
        .option("group.id", "flights-table")
        .option("startingOffsets", "earliest")
        .option("onNewCheckpoint", "startingOffsets")
        .load()
    )


@dp.materialized_view
def origins() -> DataFrame:
    """Return how many flights each airport has."""
    return spark.read.table("flights").selectExpr("cast(key AS string) AS origin").groupBy("origin").count()
