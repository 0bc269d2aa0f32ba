"""The programs that type checkers read: examples, other blocks of documents with their contexts, and `*_api.py`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from textwrap import indent

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples"
BLOCK = re.compile(r"^(<!-- examples/\S+ -->\n+)?```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

SPARK = """
from collections.abc import Callable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from kohort.spark import *
spark: SparkSession
orders: DataFrame
folder: str
rows: Callable[[DataFrame], DataFrame]
invoices: Callable[[DataFrame], DataFrame]
table: DeltaLakeTable
"""
CLIENTS = """
import json, logging
from collections.abc import Callable
from kohort import *
log = logging.getLogger()
address: str
consumer: Consumer
producer: Producer
"""
CONTEXTS = {
    "assignors.md": CLIENTS + "from own_assignor import canary\nfrom kohort.testing import *\nspec: GroupSpec\n",
    "clients.md": CLIENTS,
    "fleet.md": SPARK,
    "lakehouse.md": SPARK,
    "protocols.md": CLIENTS + "behind: Callable[[], int]\n",
    "schemas.md": SPARK.replace("rows: Callable[[DataFrame], DataFrame]", "rows: DataFrame")
    + "ORDER: str\nREADER: str\n",
    "spark.md": SPARK + "import kohort.spark\nquery: StreamingQuery\naddress: str\n",
    "testing.md": CLIENTS + "import kohort.sim\nfrom kohort.sim import World\nasync def app() -> None: ...\n",
    "upserts-and-history.md": SPARK + "stream: GroupStream\nlake = '/lake'\n",
}
"""What blocks that are parts of programs take from around them, by the document."""


def write_programs(folder: Path) -> None:
    """Write the examples, a module for each document with other blocks, each of them in a function, and `*_api.py`."""
    for program in HERE.glob("[!t]*_api.py"):
        shutil.copy(program, folder)
    shutil.copytree(
        EXAMPLES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.txt", "*.jsonl", "__pycache__")
    )
    guides = ROOT / "docs" / "guide"
    documents = [
        ROOT / "README.md",
        ROOT / "docs" / "tutorial.md",
        *guides.glob("*.md"),
        *guides.glob("../cookbook/*.md"),
    ]
    for document in documents:
        text = document.read_text(encoding="utf-8")
        blocks = [
            f"async def line_{text.count(chr(10), 0, block.start(2)) + 1}() -> None:\n{indent(block[2], '    ')}"
            for block in BLOCK.finditer(text)
            if not block[1]
        ]
        if blocks:
            text = "\n\n".join([CONTEXTS.get(document.name, ""), *blocks])
            (folder / f"{document.stem.replace('-', '_')}_md.py").write_text(text, encoding="utf-8")
