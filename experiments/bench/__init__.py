"""Timings of the parts, one module each: ``python -m experiments.bench.NAME [--quick] [--save]``."""
