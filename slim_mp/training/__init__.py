"""The training of a network: its graph, its loop, and what happens around the steps."""
