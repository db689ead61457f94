"""Neural simulated annealing as published: repair as a decision process, its networks, its training, its solver."""
