"""`kohort topics create|list|describe|alter|delete`: topics, their partitions and settings."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kohort.cli.cluster import ends_of, require_topics, with_admin
from kohort.cli.group_state.repeated_looks import add_watch, watching
from kohort.cli.terminal import output
from kohort.cli.terminal.confirmation import add_yes, asking, confirm
from kohort.cli.terminal.failure import USAGE, CommandFailed
from kohort.cli.terminal.options import add_cluster, add_json, add_option, number, setting, verb, verb_of_verbs
from kohort.model.ids import EVENT_TOPIC, TopicPartition, topic_id_text

if TYPE_CHECKING:
    from kohort.client import Admin


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `topics` and its verbs to the command line."""
    inner = verb_of_verbs(verbs, "topics", "create, list, describe, alter and delete topics")
    example = "kohort topics create flights --partitions 12 --config retention.ms=86400000"
    create = verb(inner, "create", "create a topic", run=with_admin(create_topic), examples=example)
    add_option(
        create,
        "--partitions N",
        "how many partitions (default: the broker's num.partitions)",
        number(1, "a number of partitions"),
    )
    add_option(
        create,
        "--replication-factor N",
        "how many replicas of each partition (default: the broker's default.replication.factor)",
        number(1, "a number of replicas", 2**15 - 1),
        default=-1,
    )
    listing = verb(inner, "list", "list topics", run=with_admin(show_topics), examples="kohort topics list --json")
    add_option(listing, "--internal", "also the internal topics of brokers")
    example = "kohort topics describe flights"
    describing = verb(
        inner, "describe", "show a topic's partitions", run=with_admin(watching(describe)), examples=example
    )
    add_watch(describing)
    summary = "add partitions to a topic, and change its settings"
    example = "kohort topics alter flights --partitions 24\nkohort topics alter flights --config retention.ms=3600000"
    example += "\nkohort topics alter flights --reset retention.ms"
    alter = verb(inner, "alter", summary, run=run_alter, examples=example)
    add_option(alter, "--partitions N", "how many there shall be in all", number(1, "a number of partitions"))
    add_option(alter, "--reset NAME", "go back to the broker's default; may repeat", action="append", default=[])
    example = "kohort topics delete flights\nkohort topics delete flights --yes"
    run = asking(with_admin(delete_topic))
    delete = verb(inner, "delete", "delete a topic and its records", run=run, examples=example)
    add_yes(delete)
    add_option(delete, "--force", "also an internal topic of brokers")
    for each in (create, alter):
        add_option(each, "--config NAME=VALUE", "set this; may repeat", setting, action="append", default=[])
    for each in (create, describing, alter, delete):
        each.add_argument("name", metavar="NAME")
    for each in (create, listing, describing, alter, delete):
        add_json(each)
        add_cluster(each)


def run_alter(args: argparse.Namespace) -> int:
    """Change one topic."""
    if args.partitions is None and not args.config and not args.reset:
        raise CommandFailed("nothing to change: give --partitions, --config or --reset", USAGE)
    return with_admin(alter)(args)


async def create_topic(args: argparse.Namespace, admin: Admin) -> None:
    """Create a topic and print its number of partitions."""
    await admin.create_topic(args.name, args.partitions, args.replication_factor, dict(args.config))
    count = (await require_topics(admin, [args.name]))[args.name]
    text = f"created {args.name} with {output.counted(count, 'partition')}"
    output.put_result(args, {"name": args.name, "partitions": count}, text)


async def show_topics(args: argparse.Namespace, admin: Admin) -> None:
    """Print the topics by name."""
    topics = sorted(await admin.list_topics(), key=lambda topic: topic.name)
    topics = [topic for topic in topics if args.internal or not topic.is_internal]
    names = ("name", "topic_id", "internal", "partitions")
    rows = [(each.name, topic_id_text(each.topic_id), each.is_internal, len(each.partitions)) for each in topics]
    table = output.table(["topic", "partitions"], [(row[0], row[3]) for row in rows])
    output.put_result(args, [dict(zip(names, row, strict=True)) for row in rows], table)
    if not topics and not args.json:
        output.remark("there are no topics: create one with `kohort topics create NAME`")


async def describe(args: argparse.Namespace, admin: Admin) -> None:
    """Print a topic's partitions and the settings that are its own."""
    await require_topics(admin, [args.name])
    topic = (await admin.describe_topics([args.name]))[args.name]
    partitions = [TopicPartition(args.name, number) for number in sorted(topic.partitions)]
    earliest = await ends_of(admin, partitions, "earliest")
    latest = await ends_of(admin, partitions, "latest")
    described: list[dict[str, int]] = [
        {
            "partition": partition.partition,
            "leader": topic.partitions[partition.partition].leader,
            "earliest": earliest[partition],
            "latest": latest[partition],
        }
        for partition in partitions
    ]
    configs = await own_configs(admin, args.name)
    topic_id = topic_id_text(topic.topic_id)
    document = {
        "name": topic.name,
        "topic_id": topic_id,
        "internal": topic.is_internal,
        "partitions": described,
        "configs": configs,
    }
    records = sum(row["latest"] - row["earliest"] for row in described)
    headline = f"{topic.name}: {len(described)} partitions, {records:,} offsets, id {topic_id}"
    output.put_result(args, document, "\n".join([headline, *config_lines(configs), "", output.table_of(described)]))


async def own_configs(admin: Admin, name: str) -> dict[str, str | None]:
    """Return the settings that were given to this topic, not its defaults."""
    from kohort.client.admin.admin import ConfigSource, ResourceType

    configs = await admin.describe_configs(ResourceType.TOPIC, name)
    return {key: configs[key].value for key in sorted(configs) if configs[key].source is ConfigSource.DYNAMIC_TOPIC}


def config_lines(configs: dict[str, str | None]) -> list[str]:
    """Return settings as lines."""
    return [f"  {name}={value}" for name, value in configs.items()]


async def alter(args: argparse.Namespace, admin: Admin) -> None:
    """Add partitions and change settings; print the result."""
    from kohort.client.admin.admin import ResourceType

    before = (await require_topics(admin, [args.name]))[args.name]
    changes: dict[str, str | None] = {**dict(args.config), **dict.fromkeys(args.reset)}
    if args.partitions is not None and args.partitions < before:
        raise CommandFailed(f"{args.name} has {before} partitions, and partitions cannot be taken away", USAGE)
    if changes:
        await admin.alter_configs(ResourceType.TOPIC, args.name, changes)
    if args.partitions is not None and args.partitions > before:
        await admin.create_partitions(args.name, args.partitions)
    count = args.partitions or before
    configs = await own_configs(admin, args.name)
    grown = f", {count - before} of them new" if count > before else ""
    lines = [f"{args.name} has {output.counted(count, 'partition')}{grown}", *config_lines(configs)]
    output.put_result(args, {"name": args.name, "partitions": count, "configs": configs}, "\n".join(lines))


async def delete_topic(args: argparse.Namespace, admin: Admin) -> None:
    """Delete a topic that exists."""
    await require_topics(admin, [args.name])
    topic = (await admin.describe_topics([args.name]))[args.name]
    if (topic.is_internal or args.name == EVENT_TOPIC) and not args.force:
        what = "what happened to groups" if args.name == EVENT_TOPIC else "the cluster's own state, such as offsets"
        raise CommandFailed(f"{args.name} contains {what}: --force deletes it all the same", USAGE)
    partitions = output.counted(len(topic.partitions), "partition")
    confirm(args, f"deletes topic {args.name}: {partitions} with all of their records")
    await admin.delete_topic(args.name)
    output.put_result(args, {"name": args.name, "deleted": True}, f"deleted {args.name}")
