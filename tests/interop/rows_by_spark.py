"""The rows of Delta and Iceberg tables as Spark with Delta's and Iceberg's jars reads them, as JSON.

python -m tests.interop.rows_by_spark FOLDER '{"NAME": "PATH or metadata file", …}'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.interop.tables_by_spark import session


def main(folder: Path, places: dict[str, str]) -> None:
    """Print a line of JSON: the rows of each table, without binary columns."""
    spark = session(folder)
    found = {}
    for name, place in places.items():
        if place.endswith(".json"):
            spark.sql(f"CALL ice.system.register_table('rows.{name}', '{place}')")
            frame = spark.table(f"ice.rows.{name}")
        else:
            frame = spark.read.format("delta").load(place)
        frame = frame.drop(*(column for column, kind in frame.dtypes if kind in ("binary", "timestamp")))
        found[name] = [row.asDict(recursive=True) for row in frame.collect()]
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
