"""The answer as a table, as JSON and as one HTML file."""
