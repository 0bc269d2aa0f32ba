"""Consumer groups (KIP-848), and the classic members inside them. The essays are in `machine` and `classic_members`."""
