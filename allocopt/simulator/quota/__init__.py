"""Jobs that share allocations by CPU quotas: rates change when a guest comes or goes, or a job moves to its next stage."""
