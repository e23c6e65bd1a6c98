"""Every declared object store can be used from the server, over verified TLS."""

from gpuferry.checking.mark import check

NEXT_STEP = "see whether the store runs and the server may reach it: ./ferry nodes"


@check("object_store.round_trip", severity="critical", next_step=NEXT_STEP, deadline_seconds=60)
def test_round_trip(node, expectations, verdict):
    """Write, read back and delete work, with the store's certificate verified by the server."""
    if not expectations.object_stores:
        verdict.not_measured("no object store is declared")
        return
    # Takes half a second to load; most servers of most stacks never need it.
    from gpuferry.checking.object_store import StoreTrouble, round_trip

    done, problems = [], []
    for store in expectations.object_stores:
        try:
            done.append(f"{store.name}: {round_trip(node, store)}")
        except StoreTrouble as trouble:
            problems.append(f"{store.name}: {trouble}")
    verdict.judge(
        not problems,
        measured="; ".join(problems + done),
        expected="write, read back, delete",
        evidence=", ".join(dict.fromkeys(store.endpoint for store in expectations.object_stores)),
    )
