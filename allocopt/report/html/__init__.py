"""Results as one HTML page and its figures: what is read, what it shows, how it is drawn."""
