"""What is done with the requests of a group: the table of policies, and groups in which parking did harm.

They know text and time, no traffic.
"""
