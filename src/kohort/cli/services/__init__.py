"""Commands that serve until a signal, with metrics over HTTP.

`kohort exporter` reads groups of a cluster; `kohort run` runs the functions of a user's service.
"""
