"""A cell of a notebook: it shows rows until it is interrupted, and then its query stops and leaves the group."""

from kohort.spark import build

spark = build("notebook")
flights = (
    spark.readStream.format("kohort")
    .option("kafka.bootstrap.servers", "localhost:9092")
    .option("subscribe", "flights")
    .option("group.id", "notebook")
    .option("startingOffsets", "earliest")
    .load()
)
query = flights.writeStream.format("memory").queryName("flights").start()
try:
    query.awaitTermination()
finally:
    query.stop()
