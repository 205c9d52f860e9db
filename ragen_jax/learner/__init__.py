"""Device side of training: what turns finished episodes into the next parameters."""
