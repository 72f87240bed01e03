"""``pack_flat`` as data: arguments, errors, fingerprint, descriptor."""

import inspect
import subprocess
import sys
from importlib.metadata import entry_points

import pack_cases as cases
import pyarrow as pa
import pytest

from zephon.abc import LaneOperator
from zephon.errors import ConfigError
from zephon.spec import canonical_json, fingerprint, from_plain, to_plain
from zephon_pack.pack_flat import DEFAULT_BINS, PackFlat


def test_arguments_are_those_of_the_user_guide():
    parameters = inspect.signature(PackFlat).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "max_length": inspect.Parameter.empty,
        "algorithm": "first_fit",
        "num_bins": None,
        "pad_token_id": None,
        "tokens_field": "auto",
        "overflow": "split",
        "homogeneity": "none",
        "groups": None,
        "parallelism": None,
        "placement": None,
    }
    assert [n for n, p in parameters.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY] == ["max_length"]


def test_a_spec_survives_being_written_down():
    operator = PackFlat(4097, algorithm="best_fit", num_bins=8, homogeneity="group", groups={"web": "a"})
    assert from_plain(PackFlat, to_plain(operator)) == operator
    assert from_plain(PackFlat, {"max_length": 9, "homogeneity": "full"}) == PackFlat(9, homogeneity="component")


def test_only_execution_settings_stay_out_of_the_fingerprint():
    def of(**options):
        return fingerprint(to_plain(PackFlat(**({"max_length": 9} | options)), data_only=True))

    assert of() == of(parallelism=4, placement="driver")
    changed = [
        of(max_length=10),
        of(algorithm="wrap"),
        of(num_bins=3),
        of(pad_token_id=1),
        of(tokens_field="ids"),
        of(overflow="drop"),
        of(homogeneity="dataset"),
    ]
    assert len({of(), *changed}) == 1 + len(changed)
    assert canonical_json(to_plain(PackFlat(9), data_only=True))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"algorithm": "next_fit"}, "pack-algorithm-unknown"),
        ({"max_length": 0}, "pack-bad-option"),
        ({"max_length": -5}, "pack-bad-option"),
        ({"max_length": 4096.0}, "pack-bad-option"),
        ({"max_length": True}, "pack-bad-option"),
        ({"max_length": 1 << 31}, "pack-bad-option"),
        ({"num_bins": 0}, "pack-bad-option"),
        ({"pad_token_id": "0"}, "pack-bad-option"),
        ({"overflow": "wrap"}, "pack-bad-option"),
        ({"homogeneity": "all"}, "pack-bad-option"),
        ({"homogeneity": "group"}, "pack-bad-option"),
        ({"groups": {"web": "a"}}, "pack-option-unused"),
        ({"algorithm": "wrap", "num_bins": 4}, "pack-option-unused"),
        ({"algorithm": "wrap", "overflow": "drop"}, "pack-option-unused"),
        ({"algorithm": "best_fit_wrap", "overflow": "truncate"}, "pack-option-unused"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_an_error(options, code):
    with pytest.raises(ConfigError) as excinfo:
        PackFlat(**({"max_length": 10} | options))
    assert excinfo.value.code == code


def test_a_group_for_a_dataset_that_does_not_exist_is_an_error():
    operator = PackFlat(10, homogeneity="group", groups={"wed": "a"})
    with pytest.raises(ConfigError) as excinfo:
        operator.open(cases.context(pa.schema([cases.TOKENS])))
    assert excinfo.value.code == "pack-unknown-dataset"


def test_groups_are_copied_into_the_spec():
    groups = {"web": "a"}
    operator = PackFlat(10, homogeneity="group", groups=groups)
    groups["code"] = "b"
    assert operator.groups == {"web": "a"}


@pytest.mark.parametrize("algorithm", ["first_fit", "best_fit", "best_fit_wrap"])
def test_the_documented_number_of_bins_is_used_when_none_is_given(algorithm):
    block = cases.make_block([6] * 16 + [4])
    assert DEFAULT_BINS == 16
    implicit = cases.rows_of(cases.run(PackFlat(10, algorithm=algorithm), block))
    assert implicit == cases.rows_of(cases.run(PackFlat(10, algorithm=algorithm, num_bins=16), block))
    assert implicit != cases.rows_of(cases.run(PackFlat(10, algorithm=algorithm, num_bins=15), block))


def test_a_named_field_is_read_alone_and_auto_reads_any():
    assert PackFlat(10).reads is None
    assert PackFlat(10, tokens_field="ids").reads == ("ids",)
    assert PackFlat(10, tokens_field="ids").optional_reads == ("loss_mask",)


def test_new_rows_are_announced():
    assert PackFlat.emits == "new"
    assert not PackFlat(8).preserves_rows


def test_the_entry_point_leads_to_the_operator():
    (entry,) = entry_points(group="zephon.operator.v1", name="pack_flat")
    descriptor = entry.load()
    assert descriptor.name == "pack_flat"
    assert descriptor.load() is PackFlat
    assert issubclass(PackFlat, LaneOperator)


def test_the_descriptor_imports_nothing_heavy():
    code = "import sys, zephon_pack.plugin; print([m for m in ('numpy', 'pyarrow', 'cattrs') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
