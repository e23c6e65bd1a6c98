"""From a table of workloads to the servers to rent, each figure with its basis and its reason.

`read` turns tables, GPUs and offers into facts; `estimate` and `choose` are pure functions of them;
`report` and `apply` show the result and write it into a stack file; `measure` fills a row from a
running machine.
"""
