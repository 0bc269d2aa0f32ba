"""Cause and cost of a group's rebalances, from saved group events (lines of JSON)."""

import json
from collections import defaultdict
from pathlib import Path

from kohort import explain, main

SAVED = "billing_events.jsonl"

main(["explain", "billing", "--events", SAVED])

events = [json.loads(line) for line in Path(SAVED).read_text(encoding="utf-8").splitlines()]
costs: defaultdict[str, float] = defaultdict(float)
for rebalance in explain(events, "billing", now_ms=0).rebalances:
    costs[rebalance.cause.kind] += rebalance.unowned_partition_s
print("\nunowned partition-seconds by cause:")
for cause, cost in sorted(costs.items(), key=lambda each: -each[1]):
    print(f"{cost:8.3f}  {cause}")
