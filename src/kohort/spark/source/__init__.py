"""What Spark calls: the data source, its batch and stream readers, and its sink.

Spark starts a process for each of them, so that each module imports only what its process needs.
"""
