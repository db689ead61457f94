"""CuSH: a job selector and a policy selector, trained together (Domeniconi, Lee and Morari, DRL4KDD 2019)."""
