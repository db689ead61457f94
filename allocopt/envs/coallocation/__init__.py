"""The environment of co-allocation: an agent says which quota of a running job's cores another one gets."""
