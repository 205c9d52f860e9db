"""Buckets of the gradient analysis, scaled group counts, resized batches."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragen_jax.compat.ragen import adjust_rows, scale_group_counts, split_into_buckets


def test_golden_buckets(golden_dir):
    for case in json.loads((golden_dir / "gradient_buckets.json").read_text()):
        buckets = split_into_buckets(
            case["group_std"], case["group_ids"], bucket_count=case["bucket_count"], mode=case["mode"]
        )
        assert list(buckets) == list(case["buckets"])
        for name, expected in case["buckets"].items():
            assert buckets[name]["rows"] == expected["rows"]
            assert buckets[name]["group_ids"] == expected["group_ids"]
            np.testing.assert_allclose(buckets[name]["std_values"], expected["std_values"], rtol=1e-6)
            np.testing.assert_allclose(buckets[name]["std_mean"], expected["std_mean"], rtol=1e-6)


def test_golden_trainer_sizes(golden_dir):
    golden = json.loads((golden_dir / "trainer_pieces.json").read_text())
    for case in golden["scale_env_config_group_counts"]:
        assert scale_group_counts(case["base_n_groups"], case["target"]) == case["scaled"]
    for case in golden["adjust_batch"]:
        rows = adjust_rows(
            case["batch"], size_divisor=case["size_divisor"], mode=case["mode"], rng=np.random.default_rng(0)
        )
        assert len(rows) == case["result_size"]
        assert len(set(rows.tolist())) == case["distinct"]
        if case["mode"] == "copy":
            assert rows[: case["batch"]].tolist() == list(range(case["batch"]))


def test_empty_fixed_buckets_are_left_out_and_names_keep_their_range():
    buckets = split_into_buckets([0.5, 4.0, 7.0], mode="fixed_rv", rows_per_group=1)
    assert list(buckets) == ["all", "bucket_1", "bucket_5", "bucket_6"]
    assert buckets["bucket_5"]["rows"] == [1]


STD = st.sampled_from([1, 5, 11]).flatmap(
    lambda size: st.lists(st.integers(0, 60).map(lambda n: n / 10), min_size=size, max_size=size)
)


@given(STD, st.sampled_from([1, 3, 6]))
def test_quantiles_share_out_the_groups_in_order(std, count):
    buckets = split_into_buckets(std, bucket_count=count, rows_per_group=3)
    everything = buckets.pop("all")
    assert sorted(row for bucket in buckets.values() for row in bucket["rows"]) == everything["rows"]
    values = [value for bucket in buckets.values() for value in bucket["std_values"]]
    assert values == sorted(values)
    sizes = [len(bucket["group_ids"]) for bucket in buckets.values()]
    assert len(sizes) == min(count, len(std))
    assert set(sizes[:-1]) <= {len(std) // len(sizes)}


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any), st.integers(0, 40))
def test_scaled_counts_sum_to_the_target_and_stay_within_one(base, target):
    scaled = scale_group_counts(base, target)
    assert sum(scaled) == target
    for count, got in zip(base, scaled, strict=True):
        assert abs(got - count * target / sum(base)) < 1


def test_copies_repeat_only_when_they_must():
    rng = np.random.default_rng(1)
    copies = adjust_rows(20, size_divisor=32, mode="copy", rng=rng)[20:]
    assert len(set(copies.tolist())) == 12
    assert len(adjust_rows(3, size_divisor=32, mode="copy", rng=rng)) == 32


def test_refusals_name_the_value():
    with pytest.raises(ValueError, match="'thirds'"):
        split_into_buckets([1.0], mode="thirds")
    with pytest.raises(ValueError, match="1 group_ids"):
        split_into_buckets([1.0, 2.0], [4])
    with pytest.raises(ValueError, match="nan"):
        split_into_buckets([np.nan])
    with pytest.raises(ValueError, match="bucket_count=0"):
        split_into_buckets([1.0], bucket_count=0)
    with pytest.raises(ValueError, match=r"base_n_groups=\[0\]"):
        scale_group_counts([0], 3)
    with pytest.raises(ValueError, match="'pad'"):
        adjust_rows(3, size_divisor=2, mode="pad", rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="size_divisor=0"):
        adjust_rows(3, size_divisor=0, mode="copy", rng=np.random.default_rng(0))
