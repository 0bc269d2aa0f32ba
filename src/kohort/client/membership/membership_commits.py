"""What a membership commits and reads of the group's offsets, as the member that it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.client.cluster.committed_offsets import OffsetAndMetadata
from kohort.client.membership.continuous_ownership import Hold
from kohort.client.membership.member_offsets import MemberOffsets
from kohort.client.membership.membership_view import MembershipView
from kohort.model.ids import TopicPartition


class MembershipCommits(MembershipView):
    """The offsets' side of a membership."""

    _offsets: MemberOffsets

    def hold(self, partitions: Iterable[TopicPartition]) -> Hold:
        """Watch whether partitions stay this member's, for a commit that is not sent yet; end it with `release`."""
        return self._offsets.held.hold(partitions, self._member.owned)

    def release(self, hold: Hold) -> None:
        """Watch no more."""
        self._offsets.held.release(hold)

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        since: Hold | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Commit offsets with the member's generation or epoch; `since` is from when on it must own the partitions.

        Raises `CommitFailed` where the group no longer takes them from this member (`RebalanceInProgress` where it may
        later), `PartitionErrors`, or the `KafkaError` of a coordinator that could not be reached.
        """
        hold = self.hold(offsets) if since is None else since
        try:
            await self._offsets.commit(offsets, hold, timeout_ms=timeout_ms)
        finally:
            if since is None:
                self.release(hold)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets; what was never committed is left out. Raises `KafkaError`."""
        return await self._offsets.committed(partitions, timeout_ms=timeout_ms)
