"""Figures of the IRMaSim paper, done again."""
