"""Files: instances, solutions, best-known values, and their schema."""
