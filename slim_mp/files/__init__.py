"""Files and downloads: written whole or not at all, read with an error that says which."""
