"""Logs in the object store: where they go, and how they are read back."""
