"""GPUs, with a source for every row and a test of itself."""
