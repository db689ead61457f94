"""Co-allocation problems: choose the running job that hosts each waiting job, and the CPU quota."""
