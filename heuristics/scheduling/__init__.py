"""Rules that order, select and start jobs in a simulation."""
