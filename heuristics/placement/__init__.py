"""Allocators of placement problems without a proof."""
