"""The demo: real flights through broker and group into Spark, a worker killed on the way, every row accounted for."""
