"""The options of `format("kohort")`: parsed and checked before Spark starts a job.

A wrong option is a ValueError that names the option and the values that it takes. No cluster is asked.
"""
