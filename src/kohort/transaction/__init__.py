"""The transaction coordinator as two functions (KIP-98, KIP-360, KIP-447, KIP-890), built as `kohort.group` is.

`decide` reads the transactional ids of one partition of `__transaction_state` and returns what a command leads to;
`apply` folds one event, which is one record. It knows no clock, no socket and no bytes.
"""
