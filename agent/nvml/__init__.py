"""NVML, called only in a child process that may hang without harm."""
