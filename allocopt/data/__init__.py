"""Instances small enough to be shipped with the package."""
