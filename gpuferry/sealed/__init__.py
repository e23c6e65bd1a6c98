"""Data sets and snapshots that leave a server encrypted: restic into the stack's object store."""
