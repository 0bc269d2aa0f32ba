"""Reading records for Fetch requests: long polls and incremental fetch sessions."""
