"""From image files and published sets to record files."""
