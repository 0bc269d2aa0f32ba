"""Fetched record batches as Arrow columns, compiled by numba or in plain Python.

Both decoders give the same columns and refuse the same bytes.
"""
