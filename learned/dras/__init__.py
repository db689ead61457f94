"""DRAS: learned two-level scheduling with reservations and backfilling (the DRAS paper)."""
