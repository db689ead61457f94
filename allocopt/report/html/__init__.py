"""Results as one HTML page with figures: reading the files, choosing the contents, drawing."""
