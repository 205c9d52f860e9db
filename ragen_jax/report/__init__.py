"""Reads run folders and writes pictures and tables; imports no jax."""
