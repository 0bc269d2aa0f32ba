"""Bronze layer: `__consumer_offsets` decoded by Spark's executors.

`bronze_reader` plans and decodes, `bronze_writer` stores, and `record_tally` counts what was stored.
"""
