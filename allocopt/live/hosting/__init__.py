"""Guests on the cores of running jobs: real processes that share cores by quotas of Linux's control groups."""
