"""What a machine needs before it can deploy: found, or made where it is missing."""
