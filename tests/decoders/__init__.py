"""Every decoder that reads bytes from outside, under bytes that coverage guides (`make fuzz`), and what was found so.

A target takes bytes and raises only what is no documented refusal. The kept corpus of each is replayed by `make test`.
"""
