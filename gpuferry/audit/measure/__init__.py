"""A row of the table, measured on the machine where the workload runs today."""
