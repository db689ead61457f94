"""Jobs that share allocations by CPU quotas: rates change as guests come and go, and jobs move through their stages."""
