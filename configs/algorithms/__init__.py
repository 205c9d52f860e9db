"""One file per algorithm: advantage, clipping, aggregation. Entropy, KL and rates belong to the run."""
