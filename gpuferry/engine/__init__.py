"""The Pulumi engine: which one runs, what it says, who holds the stack."""
