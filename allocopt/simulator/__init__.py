"""The cluster simulator: jobs of a workload, a platform, and a scheduler that decides which job starts when."""
