"""What the records of one group say, one after another: its events, who owned what, its hours. No Spark."""
