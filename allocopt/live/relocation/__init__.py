"""Room for gangs that wait beside a running Slurm, made by running jobs that stop or move."""
