"""Decoding of the bytes of `__consumer_offsets` to Arrow: batches, records and values.

What cannot be read goes into quarantine.
"""
