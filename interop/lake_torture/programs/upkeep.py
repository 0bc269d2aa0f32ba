"""What other tools do to a table while jobs write it: compact, vacuum, expire, write, analyse; again and again.

    python -m interop.lake_torture.programs.upkeep KIND WHERE NAME SEED

It prints a line for each. What a table refuses because a job was faster, it tries again later.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from random import Random

PAUSE_S = 8.0


def of_delta(uri: str) -> list[Callable[[], object]]:
    """Return what delta-rs can do to a Delta table."""
    from deltalake import DeltaTable

    return [
        lambda: DeltaTable(uri).optimize.compact(),  # noqa: PLW0108 - of the newest version
        lambda: DeltaTable(uri).create_checkpoint(),
        lambda: DeltaTable(uri).vacuum(retention_hours=1, enforce_retention_duration=False, dry_run=False),
        lambda: DeltaTable(uri).cleanup_metadata(),
        lambda: DeltaTable(uri).delete("partition = -1"),
    ]


def of_iceberg(name: str) -> list[Callable[[], object]]:
    """Return what pyiceberg, and our own upkeep, can do to an Iceberg table."""
    from pyiceberg.catalog import load_catalog

    from kohort.spark.tables import IcebergTable

    def touch() -> None:
        with load_catalog("lake").load_table(name).transaction() as change:
            change.set_properties({"touched": str(time.time())})

    def delete() -> None:
        load_catalog("lake").load_table(name).delete("partition = -1")

    return [
        lambda: IcebergTable(name, catalog="lake").expire_snapshots(timedelta(seconds=10)),
        touch,
        delete,
    ]


def of_postgres(conninfo: str, name: str) -> list[Callable[[], object]]:
    """Return what a database does to a table of its own, locks included."""
    import psycopg

    def run(statement: str) -> Callable[[], object]:
        def call() -> None:
            with psycopg.connect(conninfo, autocommit=True) as connection:
                connection.execute(statement)

        return call

    return [
        run(f"VACUUM {name}"),
        run(f"VACUUM FULL {name}"),
        run(f"ANALYZE {name}"),
        run(f"DELETE FROM {name} WHERE partition = -1"),
        run("VACUUM FULL kohort_offsets"),
    ]


def main(kind: str, where: str, name: str, seed: str) -> None:
    """Do one thing after the other, for ever."""
    random = Random(seed)
    if kind == "delta":
        deeds = of_delta(f"{where}/{name}")
    else:
        deeds = of_iceberg(f"air.{name}") if kind == "iceberg" else of_postgres(where, name)
    while True:
        time.sleep(random.uniform(0, 2 * PAUSE_S))
        try:
            random.choice(deeds)()
            print("done", flush=True)
        except Exception as error:  # there is no table yet, a job was faster, or the store is down
            print(f"{type(error).__name__}: {str(error)[:200]}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
