"""What solves a binary program: SCIP, HiGHS and CP-SAT, each in a child process that can be killed."""
