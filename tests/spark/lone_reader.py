"""A reader of a streaming query in a process of its own, under an application that waits to be killed.

`python -m tests.spark.lone_reader OPTIONS` is the application, with `--reader` the process that it keeps for its
reader. OPTIONS are a JSON object. The reader says `joined` when it has asked for a batch.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from pyspark.sql.streaming.datasource import ReadAllAvailable

from kohort.spark.options.source_options import SourceOptions
from kohort.spark.source.stream_reader import StreamReader


def main(options: str, *is_reader: str) -> None:
    """Be one of the two until killed."""
    if not is_reader:
        subprocess.Popen([sys.executable, "-m", "tests.spark.lone_reader", options, "--reader"])
    else:
        reader = StreamReader(SourceOptions.parse(json.loads(options)), 2)
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        print("joined", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
