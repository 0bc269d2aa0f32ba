"""The options of `format("kohort")` and of `GroupStream`, read and checked before Spark starts a job."""
