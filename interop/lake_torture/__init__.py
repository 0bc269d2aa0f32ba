"""Jobs of consumer groups that land a topic in tables, killed at random and at named points, judged by foreign readers.

The jobs are ours, and those of others on the same topic under the same kills.
"""
