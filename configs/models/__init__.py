"""Network sizes."""
