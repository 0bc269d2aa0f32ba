"""One of several processes does what only one may do; a store refuses what a former leader still writes."""

import asyncio
from collections.abc import Sequence
from typing import Any

from kohort import EagerProtocol, GroupMember, JsonCodec, MemberMetadata
from kohort.testing import EmbeddedBroker


class Ledger:
    """A store that fences: it takes a write only with the newest generation that it has seen, or a newer one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.newest = -1

    def write(self, line: str, generation: int) -> bool:
        if generation < self.newest:
            return False
        self.newest = generation
        self.lines.append(line)
        return True


def elect(members: Sequence[MemberMetadata[Any]]) -> dict[str, str]:
    """The first host by name leads, and every member learns which one that is."""
    leader = min(member.metadata["host"] for member in members)
    return {member.member_id: leader for member in members}


def candidate(address: str, host: str, **more: Any) -> GroupMember:
    return GroupMember(
        address,
        group_id="billing-leader",
        protocol_type="election",
        protocols=EagerProtocol(name="first-host", assign=elect, codec=JsonCodec(), assignment_codec=JsonCodec()),
        metadata={"host": host},
        **more,
    )


async def main(address: str) -> None:
    ledger = Ledger()
    async with candidate(address, "host-b", on_revoked=lambda leader: print(f"  a round begins, {leader} led")) as b:
        await b.joined()
        former = b.generation
        print("host-b leads:", ledger.write("invoice 1", former))
        a = candidate(address, "host-a")
        await a.start()
        await b.wait_for(lambda: b.assignment == "host-a")
        await a.joined()
        print("host-a leads:", ledger.write("invoice 2", a.generation))
        print("host-b, if it did not know yet:", ledger.write("invoice 2", former))
        await a.stop("the host is shut down")
        await b.wait_for(lambda: b.assignment == "host-b")
        print("host-b leads again:", ledger.write("invoice 3", b.generation))
    print(ledger.lines)


if __name__ == "__main__":
    with EmbeddedBroker() as broker:
        asyncio.run(main(broker.bootstrap_servers))
