"""Reading records for Fetch requests.

`long_poll` waits for records (KIP-41), `fetch_sessions` keeps incremental fetch sessions (KIP-227).
"""
