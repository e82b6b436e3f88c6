"""What the pictures of evaluations and reports share."""
