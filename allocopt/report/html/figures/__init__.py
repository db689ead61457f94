"""The figures of reports, one per file."""
