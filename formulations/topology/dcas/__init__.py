"""Exact DCAS by a dynamic program over nested jobs."""
