"""Batch scheduling: an agent chooses which waiting job starts next."""
