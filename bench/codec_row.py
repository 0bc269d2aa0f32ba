"""The message codec beside kio's and kafka-python's: the geometric mean over the messages that all of them know."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.result import Aim, Outcome, Result

HERE = Path(__file__).resolve().parent


def codec(quick: bool) -> Iterator[Outcome]:
    """Run bench/codec.py and reduce its table to one line per peer and direction."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "codec.json"
        command = [
            sys.executable,
            str(HERE / "codec.py"),
            "--json",
            str(output),
            "--seconds",
            "0.02" if quick else "0.1",
        ]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=600, cwd=HERE.parent)
        rows = json.loads(output.read_text())["rows"]
    by_library: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        by_library.setdefault(row["library"], {})[row["case"]] = row
    ours = by_library.pop(next(name for name in by_library if name.startswith("kohort")))
    for library, theirs in by_library.items():
        shared = sorted(ours.keys() & theirs.keys())
        for direction in ("encode_us", "decode_us"):
            # kio decodes in Rust: it is shown, and not what a Python decoder can aim at.
            is_compiled = library.startswith("kio") and direction == "decode_us"
            means = [
                math.exp(sum(math.log(of[case][direction]) for case in shared) / len(shared)) for of in (ours, theirs)
            ]
            yield Result(
                f"codec, {direction.removesuffix('_us')}",
                "µs",
                [means[0]],
                [means[1]],
                library,
                None if is_compiled else Aim(1, of_ratio=True, at_most=True),
                f"geometric mean over {len(shared)} messages; bench/codec.py prints them singly",
            )
