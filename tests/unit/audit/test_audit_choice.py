"""Which servers are chosen, which are not, and why."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from gpuferry.audit.choose import gpus, parallel
from gpuferry.audit.choose.cluster import network
from gpuferry.audit.choose.decision import FITS, NO, TIGHT
from gpuferry.audit.choose.place import inside
from gpuferry.audit.choose.plan import explain, make_plan
from gpuferry.audit.estimate.terms import Layout
from gpuferry.audit.offers.load import hypothetical, load_offers
from gpuferry.audit.read.inventory import InventoryError, read_inventory
from gpuferry.errors import SpecError
from tests.bench.audit_tables import write_offers, write_workloads
from tests.support.audit import LLAMA_8B, LLAMA_70B, decided, offers, planned, row, rows

MEASURED = {"basis": "measured", "kind": "sim"}


def fit(name: str, **cells: object) -> gpus.GpuFit:
    return next(f for f in gpus.fits(row(**cells)) if f.name == name)


def test_total_memory_is_never_taken_for_the_memory_of_one_gpu() -> None:
    w = row(**MEASURED, peak_vram="100 GiB", splits="no")
    small = ({"gpu": "A16", "gpus": 8}, {"gpu": "V100 SXM2 32GB", "gpus": 8})
    assert decided(w, *small).chosen is None
    chosen = decided(w, {"gpu": "A16", "gpus": 8}, {"gpu": "H200", "gpus": 1, "price": 9}).chosen
    assert chosen is not None
    assert chosen.offer.gpu.name == "H200 SXM"


@pytest.mark.parametrize("name", ["H200 SXM", "B200 SXM", "MI300X"])
def test_a_need_of_100_gib_lists_the_large_gpus(name: str) -> None:
    assert fit(name, **MEASURED, peak_vram="100 GiB", vendor="any").status == FITS
    assert fit("A100 SXM 80GB", **MEASURED, peak_vram="100 GiB", splits="no").status == NO


@pytest.mark.parametrize(
    ("gib", "status"), [(19.0, FITS), (19.6, TIGHT), (21.0, TIGHT), (21.5, NO), (23.9, NO)]
)
def test_bands_are_taken_of_what_the_card_shows_not_of_its_name(gib: float, status: int) -> None:
    # An L4 is sold as 24 GB and shows 22.5 GiB: 85 % is 19.1, 95 % is 21.4.
    assert fit("L4", **MEASURED, peak_vram=f"{gib} GiB").status == status


REFUSED = [
    ("T4", {"precision": "bf16"}, "no BF16"),
    ("A100 SXM 80GB", {"precision": "fp8"}, "no FP8"),
    ("L40S", {"needs_fp64": "yes"}, "double precision"),
    ("RTX 4090", {"needs_ecc": "yes"}, "no ECC"),
    ("H100 SXM", {"needs_display": "yes"}, "no ray-tracing"),
    ("GH200 96GB", {}, "arm64"),
    ("MI300X", {}, "vendor: any"),
    ("A10", {"min_compute_capability": 8.9}, "compute capability 8.6"),
    ("L4", {"gpu": "L40S"}, "only L40S"),
]


@pytest.mark.parametrize(("name", "cells", "why"), REFUSED)
def test_gpus_that_cannot_be_used_say_why(name: str, cells: dict[str, object], why: str) -> None:
    found = fit(name, kind="sim", basis="measured", peak_vram="4 GiB", **cells)
    assert (found.status, why in found.why) == (NO, True), found


def test_arm_hosts_and_other_vendors_are_used_when_the_row_allows_it() -> None:
    assert fit("GH200 96GB", **MEASURED, peak_vram="4 GiB", arm_ok="yes").status == FITS
    assert fit("MI300X", **MEASURED, peak_vram="4 GiB", vendor="any").status == FITS


def test_ecc_takes_its_share_of_a_workstation_card() -> None:
    cells = {**MEASURED, "peak_vram": "40.5 GiB"}
    assert fit("RTX A6000", **cells).status == FITS
    assert fit("RTX A6000", **cells, needs_ecc="yes").status == TIGHT


def test_a_mixed_precision_model_is_spread_or_refused_with_the_share_of_each_gpu() -> None:
    w = row(**LLAMA_8B, method="full", recompute="full", batch=1, seq=2048)
    chosen = decided(w, {"gpu": "A100 SXM 80GB", "gpus": 4}).chosen
    assert chosen is not None
    assert chosen.layout.zero == 3
    assert "has to be changed" in " ".join(decided(w, {"gpu": "A100 SXM 80GB", "gpus": 4}).notes)
    refused = decided(w, {"gpu": "L4", "gpus": 2})
    assert refused.chosen is None
    assert "no offer does" in refused.refused


def test_the_deadline_decides_about_the_number_of_gpus() -> None:
    cells = {"kind": "render", "basis": "measured", "peak_vram": "9 GiB", "samples": 1000,
             "seconds_per_frame_now": 100, "source_gpu": "RTX 4090",
             "runs_per_month": 1}  # fmt: skip
    many = [{"gpu": "RTX 4090", "gpus": n, "price": 0.5 * n} for n in (1, 2, 4, 8)]
    relaxed = decided(row(**cells, deadline="40h"), *many).chosen
    hurried = decided(row(**cells, deadline="6h"), *many).chosen
    assert relaxed is not None
    assert hurried is not None
    assert (relaxed.offer.gpus, hurried.offer.gpus) == (1, 8)
    assert decided(row(**cells, deadline="1h"), *many).chosen is None


def test_too_little_beside_the_gpus_is_too_little() -> None:
    w = row(**MEASURED, peak_vram="10 GiB", peak_ram="100 GiB", cpu_cores_now=16)
    poor = {"gpu": "L4", "cpu_cores": 4}
    assert decided(w, poor).chosen is None
    assert decided(w, {"gpu": "L4", "memory": "64 GiB"}).chosen is None
    assert decided(w, {"gpu": "L4", "disk": "20 GB"}).chosen is None
    near = decided(w, {"gpu": "L4", "memory": "118 GiB"}).chosen
    assert near is not None
    assert near.status == TIGHT


def test_a_quicker_gpu_needs_more_cores_to_feed_it() -> None:
    cells = {"kind": "train", "family": "cnn", "basis": "measured", "peak_vram": "9 GiB",
             "samples_per_s_now": 400, "cpu_ms_per_sample": 10, "samples": "10M",
             "source_gpu": "RTX 3090", "precision": "fp16", "gpus_now": 1}  # fmt: skip
    slow, quick = (decided(row(**cells), {"gpu": name}).chosen for name in ("RTX 3090", "RTX 5090"))
    assert slow is not None
    assert quick is not None
    assert slow.host.cores == pytest.approx(400 * 0.010 * 1.2 + 2)
    assert quick.host.cores > 1.8 * slow.host.cores


def test_spot_is_only_for_jobs_that_can_be_restarted() -> None:
    spot = {"gpu": "L4", "kind": "spot", "price": 0.1}
    firm = {"gpu": "L4", "price": 0.5}
    for restartable, price in (("no", 0.5), ("yes", 0.1)):
        w = row(**MEASURED, peak_vram="9 GiB", restartable=restartable)
        chosen = decided(w, spot, firm).chosen
        assert chosen is not None
        assert chosen.offer.price == price


def test_slices_of_a_gpu_have_their_own_memory_and_do_not_work_together() -> None:
    whole = {"gpu": "A100 SXM 80GB", "price": 2.0}
    small = {"gpu": "A100 SXM 80GB", "mig": "1g.10gb", "price": 0.3}
    two = {"gpu": "A100 SXM 80GB", "mig": "3g.40gb", "gpus": 2, "price": 0.9}
    for peak, price in (("6 GiB", 0.3), ("20 GiB", 2.0)):
        chosen = decided(row(**MEASURED, peak_vram=peak), whole, small, two).chosen
        assert chosen is not None
        assert chosen.offer.price == price


def test_monthly_prices_pay_when_enough_hours_are_used() -> None:
    hourly = {"gpu": "L4", "price": 0.5}
    monthly = {"gpu": "L4", "price": 200, "period": "month", "kind": "dedicated"}
    cells = {**MEASURED, "peak_vram": "9 GiB", "run_time_now": "20h", "source_gpu": "L4"}
    few = planned([row(**cells, runs_per_month=2)], hourly, monthly)
    many = planned([row(**cells, runs_per_month=25)], hourly, monthly)
    assert few.servers[0].offer.period == "hour"
    assert many.servers[0].offer.period == "month"
    assert "a month pays from 400 h" in many.servers[0].advice


def test_jobs_that_take_turns_share_a_server_and_services_do_not() -> None:
    use = {"basis": "measured", "peak_vram": "9 GiB", "run_time_now": "20h", "source_gpu": "L4"}
    jobs = [{"id": f"j{i}", "kind": "sim", **use, "runs_per_month": 4} for i in range(5)]
    service = {"id": "s", "kind": "infer", **LLAMA_8B, "weights_precision": "int8"}
    plan = planned(rows(*jobs, service), {"gpu": "L4", "price": 0.5})
    sizes = sorted(len(s.workloads) for s in plan.servers)
    assert sizes == [1, 5]
    assert all(s.hours <= 0.7 * 730 for s in plan.servers if len(s.workloads) > 1)


def test_other_currencies_are_compared_only_with_a_rate() -> None:
    w = row(**MEASURED, peak_vram="9 GiB")
    plan = planned([w], {"gpu": "L4", "price": 9}, {"gpu": "L4", "price": 0.1, "currency": "USD"})
    assert plan.servers[0].offer.currency == "EUR"
    assert "prices in USD are not compared" in " ".join(plan.notes)


def test_jobs_share_a_server_only_while_its_disk_holds_all_their_data() -> None:
    use = {"kind": "sim", "basis": "measured", "peak_vram": "9 GiB", "run_time_now": "9h",
           "source_gpu": "L4", "runs_per_month": 2, "dataset": "600 GB"}  # fmt: skip
    jobs = rows(*({"id": f"j{i}", **use} for i in range(4)))
    for disk, servers in (("8 TB", 1), ("2 TB", 2)):
        assert len(planned(jobs, {"gpu": "L4", "disk": disk}).servers) == servers


@pytest.mark.parametrize(
    ("wanted", "region", "there"),
    [
        ("EU", "DE", True), ("EU", "eu-central-1", True), ("EU", "FI-Helsinki", True),
        ("EU", "US-East", False), ("EU", "UK", False), ("EU", "NO", False), ("EEA", "NO", True),
        ("DE", "de-fra", True), ("DE", "EU", False), ("DE or FR", "FR", True),
        ("US", "RUSSIA", False),
    ],
)  # fmt: skip
def test_data_stays_where_it_has_to(wanted: str, region: str, there: bool) -> None:
    assert inside(wanted, region) is there
    w = row(**MEASURED, peak_vram="9 GiB", data_residency=wanted)
    assert (decided(w, {"gpu": "L4", "region": region}).chosen is not None) is there
    unstated = decided(w, {"gpu": "L4"})
    assert unstated.status == "tight"
    assert "names no region" in " ".join(unstated.notes)


def test_old_prices_are_marked() -> None:
    old = (dt.datetime.now(dt.UTC).date() - dt.timedelta(days=91)).isoformat()
    plan = planned([row(**MEASURED, peak_vram="9 GiB")], {"gpu": "L4", "date": old})
    assert "91 days old" in " ".join(plan.decisions[0].notes)
    assert "older than 90 days" in " ".join(plan.notes)


WRONG_OFFERS = [
    ({"gpu": "H100"}, "can be 3 GPUs. Accepted: H100 PCIe, H100 NVL, H100 SXM"),
    ({"gpu": "L4", "gpus": 0}, "is too small"),
    ({"gpu": "L4", "price": -1}, "is negative"),
    ({"gpu": "L4", "currency": "dollars"}, "is no currency"),
    ({"gpu": "L4", "currency": ""}, "a price needs one"),
    ({"gpu": "L4", "memory": 128}, "has no unit"),
    ({"gpu": "L4", "mig": "1g.10gb"}, "L4 has no MIG"),
    ({"gpu": "A100 SXM 40GB", "mig": "3g.40gb"}, "is no slice of A100 SXM 40GB"),
    ({"gpu": "A30", "mig": "7g.80gb"}, "is no slice of A30"),
    ({"gpu": "L4", "price": 0}, "leave it out where the price is not known"),
    ({"gpu": "L4", "vcpus": 8}, "did you mean cpu_cores?"),
    ({"gpu": "8x H100 SXM"}, "names 8 GPUs"),
    ({"gpu": "L4", "cost": 1}, "is no column of an offer"),
    ({"gpu": "L4", "network": "25G"}, "bits or bytes"),
]


@pytest.mark.parametrize(("cells", "sentence"), WRONG_OFFERS)
def test_wrong_offers_are_named(cells: dict[str, object], sentence: str) -> None:
    with pytest.raises(InventoryError) as caught:
        offers(cells)
    assert sentence in str(caught.value)


ONE = "{id: a, provider: P, gpu: L4, gpus: 1, price: 1}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("offers: []", "holds no offer"),
        ("", "a list `offers:` is required"),
        (f"currency: USD\nrates: {{USD: 2}}\noffers: [{ONE}]", "for other currencies only"),
        (f"currency: USD\nrates: {{EUR: true}}\noffers: [{ONE}]", "is no table of rates"),
        (f"currency: USD\nrates: {{eur: 1.1}}\noffers: [{ONE}]", "is no table of rates"),
        (f"currency: USD\noffers: [{ONE}, 5]", "offer 2: '5' is no mapping"),
        (f"currency: USD\ndefaults: 5\noffers: [{ONE}]", "defaults: '5' is no mapping"),
    ],
)
def test_files_of_offers_that_say_nothing_or_nonsense(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "o.yaml").write_text(text)
    with pytest.raises(SpecError) as caught:
        load_offers(tmp_path / "o.yaml")
    assert sentence in str(caught.value)


def test_offers_may_have_their_units_in_the_headings(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text(
        "ID;Provider;GPU;GPUs;Price;Currency;Memory (GiB);Disk (TB);Network (Gbit/s)\n"
        "a;P;L4;1;0,5;EUR;64;2;25\n"
    )
    (offer,) = load_offers(tmp_path / "o.csv").offers
    assert (offer.memory, offer.disk, offer.network) == (64 * 2**30, 2e12, 25e9 / 8)


def test_hours_of_today_shrink_on_a_quicker_gpu_where_today_is_known() -> None:
    cells = {**MEASURED, "peak_vram": "9 GiB", "gpu_hours_week": 40, "kind": "sim"}
    known = decided(row(**cells, source_gpu="L4"), {"gpu": "A100 SXM 80GB"})
    unknown = decided(row(**cells, source_gpu="GTX 970"), {"gpu": "A100 SXM 80GB"})
    assert known.chosen is not None
    assert unknown.chosen is not None
    ratio = known.chosen.month_hours / unknown.chosen.month_hours
    assert ratio == pytest.approx(300 / 2039)  # memory bandwidth
    assert "is unknown to the catalogue: today's time is taken" in " ".join(unknown.notes)


def test_a_name_of_today_that_leaves_several_open_gives_the_range_over_them() -> None:
    cells = {**MEASURED, "kind": "sim", "peak_vram": "9 GiB", "run_time_now": "10h"}
    found = decided(row(**cells, source_gpu="A100"), {"gpu": "A100 SXM 80GB"})
    assert found.chosen is not None
    assert found.chosen.seconds is not None
    quick, mid, slow = (seconds / 36000 for seconds in found.chosen.seconds)
    assert quick <= 1555 / 2039 < mid < slow == pytest.approx(1)
    assert "covers all of them" in " ".join(found.notes)


def test_a_run_of_unknown_length_is_said_to_be_counted_as_a_month() -> None:
    w = row(**{**MEASURED, "kind": "train"}, peak_vram="9 GiB", runs_per_month=4)
    found = decided(w, {"gpu": "L4"})
    assert found.chosen is not None
    assert found.chosen.run_cost is None
    assert "a whole month is counted" in " ".join(found.notes)


def test_a_case_that_is_too_large_for_any_gpu_says_what_would_help() -> None:
    w = row(kind="sim", cells="300M", bytes_per_cell="1.2 KB", needs_fp64="yes")
    refused = decided(w, {"gpu": "B200 SXM"}).refused
    assert "with splits: yes" in refused
    assert refused.count("double precision") == 1
    assert "(cc" not in refused


def test_a_card_that_is_nearly_empty_is_named_also_where_its_hours_are_not_known() -> None:
    found = decided(row(**{**MEASURED, "kind": "infer"}, peak_vram="1 GiB"), {"gpu": "A40"})
    assert "of the memory is used, and nothing says how much of the time" in found.over_rented


def test_what_breaks_first_is_named() -> None:
    w = row(**MEASURED, peak_vram="16 GiB", run_time_now="10h", source_gpu="L4", deadline="11h")
    limits = decided(w, {"gpu": "L4"}).limits
    assert limits[0].name == "deadline"
    assert limits[0].growth == pytest.approx(10, abs=1)


def test_cheaper_offers_come_with_the_reason_why_not() -> None:
    w = row(**MEASURED, peak_vram="30 GiB", needs_ecc="yes")
    plan = planned(
        [w],
        {"gpu": "L40S", "price": 2},
        {"gpu": "L4", "price": 1},
        {"gpu": "RTX 5090", "price": 1.5},
    )
    reasons = {o.gpu.name: why for o, why in explain(plan.decisions[0], plan.fleet).cheaper}
    assert "30 GiB of 22.49 GiB" in reasons["L4"]
    assert "no ECC" in reasons["RTX 5090"]


BIG = {**LLAMA_70B, "kind": "train", "batch": 1, "seq": 4096, "recompute": "full", "tokens": "1B"}
BOX = {"gpu": "A100 SXM 80GB", "gpus": 8, "max_servers": 8}


def test_several_servers_only_where_one_does_not_do_and_the_network_carries_it() -> None:
    quick = decided(row(**BIG), {**BOX, "network": "800 Gbit/s"}).chosen
    slow = decided(row(**BIG), {**BOX, "network": "10 Gbit/s"})
    single = decided(row(**BIG), {**BOX, "gpu": "B300 SXM"}).chosen
    assert quick is not None
    assert quick.servers > 1
    assert "F9" in quick.reasons[0]
    assert slow.chosen is None
    assert single is not None
    assert single.servers == 1


def test_f9_gives_its_figures() -> None:
    (offer,) = offers({**BOX, "network": "100 Gbit/s"}).offers
    status, text = network(row(**BIG), offer, Layout(16, zero=3), 2)
    assert status == NO
    assert "needs" in text
    assert "only 100 Gbit/s" in text


def test_without_offers_the_smallest_machine_of_the_catalogue_is_shown() -> None:
    plan = make_plan([row(**MEASURED, peak_vram="30 GiB", splits="no")], hypothetical())
    chosen = plan.decisions[0].chosen
    assert chosen is not None
    assert chosen.offer.gpus == 1
    assert chosen.offer.gpu.vram_gb in (40, 48)
    assert "no prices" in " ".join(plan.notes)


def test_two_hundred_rows_are_decided_alike_alone_and_together(tmp_path: Path) -> None:
    write_workloads(tmp_path / "w.csv", 200)
    write_offers(tmp_path / "o.csv", 120)
    workloads, some = read_inventory(tmp_path / "w.csv"), load_offers(tmp_path / "o.csv")
    plan = make_plan(workloads, some)
    assert [d.workload.id for d in plan.decisions] == [f"w{i}" for i in range(200)]
    for decision in plan.decisions[::20]:
        alone = make_plan([decision.workload], some).decisions[0]
        assert (alone.chosen and alone.chosen.offer.id) == (
            decision.chosen and decision.chosen.offer.id
        )
    placed = {d.workload.id for s in plan.servers for d in s.workloads}
    assert placed == {d.workload.id for d in plan.decisions if d.chosen}
    assert all(d.refused for d in plan.decisions if not d.chosen)
    several = parallel.split(plan.fleet.decide, workloads, plan.fleet, 2)
    assert [d.workload.id for d in several] == [w.id for w in workloads]
    assert [d.chosen and d.chosen.offer.id for d in several] == [
        (c.chosen and c.chosen.offer.id) if c.chosen and c.chosen.servers == 1 else None
        for c in plan.decisions
    ]
