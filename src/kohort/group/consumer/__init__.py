"""Consumer groups (KIP-848), and the classic members inside them."""
