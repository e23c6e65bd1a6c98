"""gpuferry moves compute workloads to rented GPU servers: declare, converge, verify."""

__version__ = "0.1.0"
