"""Jobs that share allocations by CPU quotas: speeds change when guests come and go, and when stages of jobs end."""
