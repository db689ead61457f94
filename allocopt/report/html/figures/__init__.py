"""The figures of reports, a file each."""
