"""Back ends that solve binary programs, and the children that they run in.

Each is a module with a ``VERSION`` and a function ``solve_program``, which solves the program of a `program.Request` on
one thread, reports every improvement that the back end shows while it runs, and returns a `program.Outcome`.
"""
