"""Local servers with a kernel of their own: one container that runs QEMU for each.

The container is what carries labels, state and address, so everything else that handles local
servers need not know the difference.
"""
