"""A custom assignor: canaries get partition 0 of every topic and nothing else, the others share the rest."""

import asyncio

from kohort import Admin, Assignor, Consumer, GroupSpec, TopicPartition, assignor
from kohort.testing import EmbeddedBroker


def canary_or_not(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
    names = sorted(spec.members)
    canaries = [name for name in names if spec.members[name].subscription.user_data == b"canary"]
    others = [name for name in names if name not in canaries]
    given: dict[str, list[TopicPartition]] = {name: [] for name in names}
    for topic, metadata in sorted(spec.topics.items()):
        for number in range(metadata.partitions):
            wanted = canaries if number == 0 else others
            chosen = [name for name in wanted or names if topic in spec.members[name].subscription.topics]
            given[chosen[number % len(chosen)]].append(TopicPartition(topic, number))
    return given


def canary(is_canary: bool) -> Assignor:
    """`withhold=True` withholds a partition until its owner has revoked it; the function need not do that."""
    user_data = b"canary" if is_canary else b"steady"
    return assignor(canary_or_not, name="canary", cooperative=True, withhold=True, user_data=user_data)


async def main(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic("orders", partitions=4)

    def member(is_canary: bool) -> Consumer:
        return Consumer("orders", bootstrap_servers=address, group_id="billing", assignors=[canary(is_canary)])

    async with member(is_canary=False) as alice:
        while len(alice.assignment()) < 4:
            await alice.poll(timeout_ms=10)
        print("alone, alice has", *sorted(alice.assignment()))
        async with member(is_canary=True) as bob:
            while not bob.assignment():
                await asyncio.gather(alice.poll(timeout_ms=10), bob.poll(timeout_ms=10))
            print("alice has", *sorted(alice.assignment()))
            print("bob, a canary, has", *sorted(bob.assignment()))


if __name__ == "__main__":
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
