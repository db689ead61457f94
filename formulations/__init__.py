"""Models that prove optimality or bounds: integer programs, constraint programs, dynamic programs, shortest paths."""
