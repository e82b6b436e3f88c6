"""How good a checkpoint is: each example of a dataset once, and what is written about it."""
