"""Everything around a training: its loop, checkpoints, learning curve and seeds."""
