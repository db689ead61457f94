"""Large neighbourhood search by exact insertion."""
