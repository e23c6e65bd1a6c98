"""Facts in: tables of workloads, model files, and the units that people write."""
