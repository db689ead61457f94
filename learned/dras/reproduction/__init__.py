"""Tables and figures of the DRAS paper, done again."""
