"""The simulator's hot loops."""
