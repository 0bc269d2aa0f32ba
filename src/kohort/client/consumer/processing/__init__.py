"""Handlers run at the same time over the records of a consumer: what may run, what has finished, what is committed."""
