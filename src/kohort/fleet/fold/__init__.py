"""The fold of one group's records into events, ownership intervals and hourly figures.

It is pure Python and knows no Spark.
"""
