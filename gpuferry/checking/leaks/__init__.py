"""Secrets that can be read where none should be: what one looks like, where to look, the verdict.

`match` and `survey` run on the server, so that no secret leaves it; what comes back is masked.
"""
