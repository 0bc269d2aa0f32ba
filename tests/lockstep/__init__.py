"""Our coordinator beside Apache Kafka's own, fed the same commands: see README in tests, and docs/lockstep.md."""
