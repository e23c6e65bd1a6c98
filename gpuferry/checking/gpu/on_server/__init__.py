"""Programs that are sent to a server and never installed there."""
