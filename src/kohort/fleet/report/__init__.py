"""What a fleet's tables say, as one page for people (`page.py`) and one JSON document for programs (`document.py`)."""
