"""Which GPUs and which servers: fits, tight, does not fit, and why."""
