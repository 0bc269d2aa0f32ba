"""`python -m kohort`."""

from __future__ import annotations

import sys

from kohort.cli import main

sys.exit(main())
