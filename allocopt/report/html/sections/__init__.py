"""The section of each kind of result, one per file."""
