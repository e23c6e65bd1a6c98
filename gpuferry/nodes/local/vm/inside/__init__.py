"""What runs in a virtual machine's container; standard library only."""
