"""Where logs go: what a stack may declare, and what servers get of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuferry import desired
from gpuferry.desired import StackFacts
from gpuferry.errors import SpecError
from gpuferry.logs.place import place
from gpuferry.spec import Spec, parse_spec

STORE = {
    "name": "datasets", "endpoint": "https://192.0.2.1", "bucket": "datasets", "region": "r",
    "access_key": "ak", "secret_key": "sk", "ca_pem": "pem",
}  # fmt: skip
EXTERNAL = {"endpoint": "https://s3.example.com", "bucket": "mine", "access_key": "a",
            "secret_key": "canary-1f"}  # fmt: skip


def spec(logs: Any, stores: tuple[str, ...] = ("datasets",), **more: Any) -> Spec:
    config = {"servers": [{"name": "gpu-1"}], "object_stores": [{"name": n} for n in stores],
              **more}  # fmt: skip
    if logs is not None:
        config["logs"] = logs
    return parse_spec({f"gpuferry:{key}": value for key, value in config.items()}, "x.yaml")


def variables(declared: Spec, recipient: str = "") -> dict[str, Any]:
    facts = StackFacts(object_stores=[STORE], log_recipient=recipient)
    return desired.role_variables(declared, declared.servers[0], facts)


@pytest.mark.parametrize(
    ("logs", "stores", "says"),
    [
        ({}, (), r"logs.bucket: name one of object_stores \(none\), or give logs.store"),
        ({}, ("one", "two"), r"logs.bucket: name one of object_stores \(one, two\)"),
        ({"bucket": "three"}, ("one",), "no object store 'three'; declared: one"),
        ({"bucket": "one", "store": EXTERNAL}, ("one",), "give bucket or store, not both"),
        ({"spool_mib": 1}, ("one",), "gpuferry:logs.spool_mib: .*16"),
        ({"units": ["a b"]}, ("one",), r"gpuferry:logs.units\[0\]"),
        ({"colour": 1}, ("one",), "gpuferry:logs.colour: unknown key; accepted: bucket, "),
        ({"store": {**EXTERNAL, "endpoint": "http://x"}}, (), "gpuferry:logs.store.endpoint"),
        ({"store": {**EXTERNAL, "secret_key": ["canary-1f"]}}, (), "logs.store.secret_key: "),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(
    logs: dict[str, Any], stores: tuple[str, ...], says: str
) -> None:
    with pytest.raises(SpecError, match=says) as refusal:
        spec(logs, stores)
    assert "canary-1f" not in str(refusal.value)


def test_logs_are_not_kept_for_less_than_the_bucket_forbids_to_delete() -> None:
    stores = [{"name": "locked", "retention_days": 30}]
    with pytest.raises(SpecError, match="forbids to delete objects for 30 days; accepted: 0, or"):
        spec({"retention_days": 7}, object_stores=stores)
    assert spec({"retention_days": 30}, object_stores=stores).logs


def test_without_the_section_nothing_is_shipped_and_nothing_expected() -> None:
    declared = spec(None)
    assert variables(declared)["log_shipping_store"] == {}
    facts = StackFacts(object_stores=[STORE])
    told = desired.expectations(declared, declared.servers[0], "u", "vm", facts)
    assert told["logs"] is False


def test_servers_get_place_keys_and_recipient() -> None:
    docker = {"daemon_options": {"data-root": "/vault/docker"}}
    declared = spec({"encryption": True, "units": ["ssh.service"]}, docker=docker)
    found = variables(declared, "age1x")
    assert found["log_shipping_store"] == {
        "endpoint": "https://192.0.2.1", "bucket": "datasets", "region": "r", "ca_pem": "pem",
    }  # fmt: skip
    assert found["log_shipping_credentials"] == {"access_key": "ak", "secret_key": "sk"}
    assert found["log_shipping_recipient"] == "age1x"
    assert found["log_shipping_units"] == ["ssh.service"]
    assert found["log_shipping_docker_folder"] == "/vault/docker"


def test_no_key_is_in_a_baked_image() -> None:
    declared = spec({"store": EXTERNAL}, ())
    baked = desired.baked_variables(declared, declared.servers[0])
    assert "canary-1f" not in str(baked)
    assert baked["log_shipping_store"] == {}
    other = spec(None, ())
    assert desired.baked_key(declared, declared.servers[0]) == desired.baked_key(
        other, other.servers[0]
    )


def test_a_store_of_ones_own_works_for_rented_servers(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    declared = spec({"store": {**EXTERNAL, "ca_file": str(tmp_path / "ca.pem")}}, ())
    found = place(declared, [])
    assert found is not None
    assert (found["bucket"], found["secret_key"], found["ca_pem"]) == ("mine", "canary-1f", "PEM")
    missing = spec({"store": {**EXTERNAL, "ca_file": str(tmp_path / "none.pem")}}, ())
    with pytest.raises(SpecError, match=r"gpuferry:logs.store.ca_file: .*none.pem cannot be read"):
        place(missing, [])


def test_another_place_makes_an_up_due() -> None:
    digests = {
        desired.declared_digest(declared, declared.servers[0])
        for declared in (spec(None), spec({}), spec({"encryption": True}))
    }
    assert len(digests) == 3
