"""Classic groups: JoinGroup, SyncGroup, Heartbeat and LeaveGroup. The essay is in `machine`."""
