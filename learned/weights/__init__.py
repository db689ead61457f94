"""Weights that come with the package, one safetensors file per trained network."""
