"""A checkpoint in the forms that answer without it."""
