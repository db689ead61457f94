"""Which running allocation hosts which waiting job, and at which CPU quota."""
