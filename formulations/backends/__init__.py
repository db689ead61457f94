"""Back ends that solve binary programs, and the child processes in which they run.

Each back end is a module with a ``VERSION`` and a function ``solve_program``. The function solves the program of a
`program.Request` on one thread, reports the improvements during the solve, and returns a `program.Outcome`.
"""
