"""``python -m allocopt``."""

from allocopt.cli.main import main

main()
