"""Servers: how they are reached, and the local provider that makes them."""
