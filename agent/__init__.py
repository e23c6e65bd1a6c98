"""The node agent: reads the GPUs, judges what they do, and tells it in Prometheus' format.

Runs on the server, with its own copies of nvidia-ml-py and prometheus_client. Imports nothing of
gpuferry.
"""

VERSION = "1"
