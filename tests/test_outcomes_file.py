"""Outcomes from CSV files as spreadsheets write them."""

import pytest

import aftereffect as ae
from aftereffect.cli.outcomes_file import outcomes_in


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("slot;value\n0;5\n", "slot and value not found: separated by ';', write commas"),
        ("slot\tvalue\n0\t5\n", "slot and value not found: separated by '\\t', write commas"),
        (
            "slot,value\n0,1,5\n",
            "as many cells as names in the first line: if it has decimal commas, write points",
        ),
        ('slot,value\n0,"1,5"\n', "got '1,5': write 1234.5, with a point and no other marks"),
        ('slot,value\n0,"1,500.25"\n', "got '1,500.25': write 1234.5, with a point and no other marks"),
        ("slot,value\n0,1_000\n", "a value must be a number, or empty where it is missing, got '1_000'"),
        ("slot,value\n0,\u0661\u0662\n", "a value must be a number, or empty where it is missing, got"),
        ("slot,value\n0,1e-400\n", "a value must be a number, or empty where it is missing, got '1e-400'"),
    ],
)
def test_what_is_the_matter_is_told(tmp_path, text, problem):
    path = tmp_path / "outcomes.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ae.InputError) as caught:
        outcomes_in(path)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_and_missing_ones(tmp_path):
    path = tmp_path / "outcomes.csv"
    path.write_text("slot,value,arm\n0,1e3,\n1,,\n2,-.5, B \n3,0,\n4,0e-999,\n")
    assert outcomes_in(path) == [(0, 1000.0, None), (1, None, None), (2, -0.5, "B"), (3, 0, None), (4, 0, None)]
