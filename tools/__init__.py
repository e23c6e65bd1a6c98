"""What the project brings along for machines without Pulumi's own tools."""
