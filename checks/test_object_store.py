"""Every declared object store can be used from the server, over verified TLS."""

from gpuferry.checking.mark import check

NEXT_STEP = "see whether the store runs and the server may reach it: ./ferry nodes"


@check("object_store.round_trip", severity="critical", next_step=NEXT_STEP, deadline_seconds=60)
def test_round_trip(stores, expectations, verdict):
    """Write, read back and delete work, with the store's certificate verified by the server."""
    if not expectations.object_stores:
        verdict.not_measured("no object store is declared")
        return
    done, problems = stores
    verdict.judge(
        not problems,
        measured="; ".join(problems + done),
        expected="write, read back, delete",
        evidence=", ".join(dict.fromkeys(store.endpoint for store in expectations.object_stores)),
    )
