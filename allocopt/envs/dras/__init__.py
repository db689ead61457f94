"""Two-level scheduling by an agent, as in DRAS: jobs are started, reserved or backfilled one choice at a time."""
