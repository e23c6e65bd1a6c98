"""Stand-ins for the two Pulumi plugins that cannot be built from a Go module.

`pulumi-language-python` and `pulumi-resource-command` are published as downloads only. Where
those cannot be reached, these two programs speak the same gRPC protocol to the real engine:
`language` runs the Python program of a stack, `provider` runs local and remote commands. They
follow version 1.2.1 of the command plugin; what they do not support they refuse by name.
"""
