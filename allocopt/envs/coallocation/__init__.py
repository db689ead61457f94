"""The environment of co-allocation: an agent chooses which quota of a running job's cores another job gets."""
