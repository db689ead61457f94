"""SCAS as binary integer programs, and the MIP and CP solvers that solve them."""
