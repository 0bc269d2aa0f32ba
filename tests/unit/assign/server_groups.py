"""Consumer groups for the tests of server-side assignors, in few words: a topic's id is made of its name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.unit.assign.groups import partitions

from kohort.assign.server.spec import NO_METADATA, ServerGroup, ServerMember, ServerTopic, StandbyLags
from kohort.model.assignment import IdPartitions, each, id_partitions


def topic_id(name: str) -> bytes:
    """Return the id of a topic in these tests; ids are in order of the names."""
    return name.encode().ljust(16, b"\0")


def held(text: str) -> IdPartitions:
    """Return the partitions of a text such as `t-0 t-1 u-0`."""
    return id_partitions((topic_id(topic), (number,)) for topic, number in partitions(text))


def text(given: IdPartitions) -> str:
    """Return partitions as a text."""
    return " ".join(f"{topic.rstrip(bytes(1)).decode()}-{number}" for topic, number in each(given))


def member(
    topics: str,
    previous: str = "",
    *,
    instance: str | None = None,
    rack: str | None = None,
    metadata: Mapping[str, tuple[int, bytes]] = NO_METADATA,
    lags: str = "",
    reason: str = "",
) -> ServerMember:
    """Return a member; `lags` is a text such as `t-0:0 t-1:50000`."""
    subscribed = frozenset(topic_id(name) for name in topics.split())
    return ServerMember(subscribed, held(previous), instance, rack, metadata, standby_lags(lags), reason)


def standby_lags(lags: str) -> StandbyLags:
    """Return the lags of a text such as `t-0:0 t-1:50000`."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    for word in lags.split():
        name, _, lag = word.partition(":")
        ((topic, number),) = partitions(name)
        found.setdefault(topic_id(topic), []).append((number, int(lag)))
    return tuple((topic, tuple(sorted(found[topic]))) for topic in sorted(found))


def group(members: Mapping[str, ServerMember], /, **topics: int | str) -> ServerGroup:
    """Return a group; a topic is its number of partitions, or the racks of each as in `r1 r1,r2`."""
    known = {topic_id(name): _topic(name, spec) for name, spec in topics.items()}
    wanted = frozenset[bytes]().union(*(each.topics for each in members.values()))
    return ServerGroup(
        members,
        {at: topic for at, topic in known.items() if at in wanted},
        len({each.topics for each in members.values()}) <= 1,
    )


def again(before: ServerGroup, target: Mapping[str, IdPartitions], **changes: ServerMember | None) -> ServerGroup:
    """Return the group with `target` as previous one; members of `changes` are new, or None: gone."""
    members: dict[str, ServerMember] = {
        name: each._replace(previous=target.get(name, ())) for name, each in before.members.items()
    }
    for name, change in changes.items():
        if change is None:
            del members[name]
        else:
            members[name] = change
    return ServerGroup(members, before.topics, len({each.topics for each in members.values()}) <= 1)


def texts(target: Mapping[str, IdPartitions]) -> dict[str, str]:
    """Return each member's partitions as a text."""
    return {name: text(given) for name, given in target.items()}


def _topic(name: str, spec: int | str) -> ServerTopic:
    if isinstance(spec, int):
        return ServerTopic(name, spec)
    racks = tuple(frozenset(each.split(",")) for each in spec.split())
    return ServerTopic(name, len(racks), racks)
