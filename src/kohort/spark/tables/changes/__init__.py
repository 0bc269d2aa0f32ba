"""Changes of rows by key: upserts, deletions and history, as `exactly_once(table, merge_on=…)` stores them.

`row_change` defines what rows mean, `envelopes` opens Debezium's and plain records, `versions` is a row's history.
"""
