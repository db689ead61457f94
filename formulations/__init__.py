"""Problems as models with a proof: integer programs, constraint programs, dynamic programs, shortest paths."""
