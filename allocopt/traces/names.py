"""Names of traces."""

from pathlib import Path


def trace_name(path: Path) -> str:
    """Name of the trace in a file: the file's name without the endings of its format."""
    name = path.name
    for ending in (".gz", ".swf", ".json", ".txt", ".csv", ".tsv", ".psv"):
        name = name.removesuffix(ending)
    return name or path.name
