"""Neural simulated annealing as published: the repair as a decision process, its networks, training and solver."""
