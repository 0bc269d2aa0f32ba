"""Measurements, each beside its peer in the same run: `python -m bench`, or `make bench`."""
