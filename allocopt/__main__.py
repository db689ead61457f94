"""``python -m allocopt``."""

from allocopt.cli.main import main

# Processes that a sweep starts import the main module again, under this name.
if __name__ != "__mp_main__":
    main()
