"""One module per claim; each runs with ``python -m experiments.<name>``."""
