"""One module for each API that is read, named by its key: what a request and its answer mean for a group.

`connection_traffic` finds the module of a frame.
"""
