"""Trained policies and solvers, their trainings, and their weights."""
