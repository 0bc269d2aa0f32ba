"""A Spark job as a member of its group: where it begins to read, which batch comes next, and what is committed when.

`round_gate` serves both `GroupStream` and the streaming source; `stream_member` is the source's. It knows no DataFrame.
"""
