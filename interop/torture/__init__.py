"""A real broker and real clients under faults for an hour, and a checker of what was acknowledged to them.

`schedule` draws the faults of a seed, `run` carries them out, the clients write histories, `checks` judges those alone.
"""
