"""The CuSH environment: an agent chooses a job of the queue and the policy by which it is allocated."""
