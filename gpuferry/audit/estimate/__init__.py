"""What a workload needs, term by term: formulas F1 to F13, each with its source."""
