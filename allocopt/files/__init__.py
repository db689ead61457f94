"""Reading and writing of files: text, JSON, TOML, CSV, and the models of their content."""
