"""One file per environment: the paper's size, and a tiny one for a laptop."""
