"""RLScheduler (Zhang et al., SC 2020, 10.1109/SC41405.2020.00035): its kernel network, training and policy."""
