"""The report of a fleet: one HTML page, or one JSON document.

`report_queries` reads it from the tables with Spark.
"""
