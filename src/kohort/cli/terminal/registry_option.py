"""`--schema-registry`: where the schemas of records are, by an option or by the file of `--command-config`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kohort.cli.terminal.failure import USAGE, CommandFailed
from kohort.cli.terminal.options import add_option

if TYPE_CHECKING:
    from kohort.schemas.registry import RegistrySettings


def add_schema_registry(parser: argparse.ArgumentParser) -> None:
    """Add --schema-registry."""
    text = "where the schemas of records are (default: schema.registry.url in the file of --command-config)"
    add_option(parser, "--schema-registry URL", text)


def registry_settings(args: argparse.Namespace) -> RegistrySettings | None:
    """Return the settings of the schema registry, None where none is named. Raises CommandFailed."""
    from kohort.schemas.registry import PREFIX, URL, RegistrySettings

    given = {name: value for name, value in args.properties.items() if name.startswith(PREFIX)}
    given |= {} if args.schema_registry is None else {URL: args.schema_registry}
    if not given:
        return None
    try:
        return RegistrySettings.parse(given)
    except ValueError as error:
        raise CommandFailed(str(error), USAGE) from error
