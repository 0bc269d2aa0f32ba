"""One broker as a process: a node, the network and a real disk.

`EmbeddedBroker` runs the same in a thread of another program.
"""
