"""The tables and figures of the CuSH paper, done again."""
