"""What the commands do: compose the spec, the engine, the servers and the checks."""
