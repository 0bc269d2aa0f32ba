"""Puts the files of a table together, again and again, by Delta's or Iceberg's jar for Spark, until its input ends.

python -m tests.interop.compacting_by_spark FOLDER STATEMENT [URL] prints `begins` each time, then `did`
and what, or `refused` and why. URL is that of the database in which the catalog `lake` of Iceberg is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Thread

from tests.interop.tables_by_spark import session


def main(folder: Path, statement: str, url: str = "") -> None:
    """Run a statement until the input ends."""
    lake = "spark.sql.catalog.lake"
    catalog = {
        lake: "org.apache.iceberg.spark.SparkCatalog",
        f"{lake}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{lake}.uri": url,
        f"{lake}.jdbc.user": "kohort",
        f"{lake}.warehouse": folder.as_uri(),
        f"{lake}.cache-enabled": "false",
    }
    spark = session(folder, **(catalog if url else {}))
    end = Thread(target=sys.stdin.read, daemon=True)
    end.start()
    while end.is_alive():
        print("begins", flush=True)
        try:
            print("did", spark.sql(statement).collect(), flush=True)
        except Exception as error:
            print("refused", str(error).splitlines()[0][:300], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
