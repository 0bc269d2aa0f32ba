"""The demo: flights through a broker and a group into two Spark workers, one of them killed, every row accounted for.

Run as `make demo` or `python -m demo` in a clone; it is not part of the installed package.
"""
