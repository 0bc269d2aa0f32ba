"""The gateway as a process: TCP, TLS, the cluster that it stands in front of, metrics, and what needs a client.

The only room with sockets, clocks and files: the others get them as arguments.
"""
