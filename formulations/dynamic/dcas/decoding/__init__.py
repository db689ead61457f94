"""Good DCAS allocations by placing the jobs one after the other, under prices."""
