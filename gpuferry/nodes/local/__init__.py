"""The local provider: systemd containers as servers, a real S3 server, a private network.

Every function here is idempotent: it makes things as declared, whatever an earlier, perhaps
killed, run left. That is what lets the next `up` continue instead of making a second server.
"""
