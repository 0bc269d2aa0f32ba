"""One assignor for both sides: run by a classic group's leader, and by the broker of a consumer group (KIP-848)."""

import asyncio

from kohort import Admin, Consumer, GroupSpec, TopicPartition, assignor
from kohort.testing import EmbeddedBroker


@assignor(name="audit-first", cooperative=True, withhold=True)
def audit_first(spec: GroupSpec) -> dict[str, list[TopicPartition]]:
    """The member with the instance id `audit` gets partition 0 of every topic, the others share the rest."""
    audit = [name for name, member in spec.members.items() if member.instance_id == "audit"]
    others = sorted(spec.members.keys() - audit) or audit
    given: dict[str, list[TopicPartition]] = {name: [] for name in spec.members}
    for topic, metadata in sorted(spec.topics.items()):
        for number in range(metadata.partitions):
            chosen = audit if audit and number == 0 else others
            given[chosen[number % len(chosen)]].append(TopicPartition(topic, number))
    return given


async def show(title: str, alice: Consumer, audit: Consumer) -> None:
    async with alice, audit:
        while len(alice.assignment()) + len(audit.assignment()) < 4 or not (alice.assignment() and audit.assignment()):
            await asyncio.gather(alice.poll(timeout_ms=10), audit.poll(timeout_ms=10))
        print(f"{title}: alice has", *sorted(alice.assignment()))
        print(f"{title}: audit has", *sorted(audit.assignment()))


async def main(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topic("orders", partitions=4)

    def classic(instance: str | None = None) -> Consumer:
        return Consumer(
            "orders",
            bootstrap_servers=address,
            group_id="classic",
            group_instance_id=instance,
            assignors=[audit_first],
        )

    def native(instance: str | None = None) -> Consumer:
        return Consumer(
            "orders",
            bootstrap_servers=address,
            group_id="native",
            group_instance_id=instance,
            group_protocol="consumer",
            group_remote_assignor="audit-first",
        )

    await show("the leader assigns", classic(), classic("audit"))
    await show("the broker assigns", native(), native("audit"))


if __name__ == "__main__":
    with EmbeddedBroker(assignors=[audit_first], group_initial_rebalance_delay_ms=0) as broker:
        asyncio.run(main(broker.bootstrap_servers))
