"""Checkpoints: which there are, what they hold, and what a graph takes from them."""
