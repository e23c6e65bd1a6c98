"""Judging GPUs: one survey of the server, then pure functions over it."""
