"""Makes room for waiting gangs beside a running Slurm by stopping or moving running jobs."""
