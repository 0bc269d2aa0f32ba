"""`kohort log check`: would some version of Kafka fail at a record of this log?

`load_check` has the rules, `checked_files` applies them to segment files.
"""
