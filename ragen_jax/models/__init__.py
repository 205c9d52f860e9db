"""Decoder, caches, heads and their layout on devices. Functions over parameter pytrees."""
