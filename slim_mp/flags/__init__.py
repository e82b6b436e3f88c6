"""Command-line flags, and what they become; nothing else reads a flag."""
