"""The transaction coordinator of one node: it carries out what `kohort.transaction` decides, and writes the markers."""
