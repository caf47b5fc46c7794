"""Totals from CSV files as spreadsheets write them."""

import pytest

import aftereffect as ae
from aftereffect.cli._formats import read_totals_file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "slot;total\n0;5\n",
            "got no slot and no total; its columns are separated by ';': use commas",
        ),
        (
            "slot\ttotal\n0\t5\n",
            "got no slot and no total; its columns are separated by '\\t': use commas",
        ),
        (
            "slot,total\n0,1,5\n",
            "expected as many cells as there are columns: if numbers have decimal commas, use points",
        ),
        ('slot,total\n0,"1,5"\n', "got '1,5': write 1234.5, with a point and no other marks"),
        (
            'slot,total\n0,"1,500.25"\n',
            "got '1,500.25': write 1234.5, with a point and no other marks",
        ),
        (
            "slot,total\n0,1_000\n",
            "a total must be a number, or empty if it is missing, got '1_000'",
        ),
        (
            "slot,total\n0,\u0661\u0662\n",
            "a total must be a number, or empty if it is missing, got",
        ),
        (
            "slot,total\n0,1e-400\n",
            "a total must be a number, or empty if it is missing, got '1e-400'",
        ),
    ],
)
def test_files_that_cannot_be_read_are_refused_in_one_line(tmp_path, text, problem):
    path = tmp_path / "totals.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ae.InputError) as caught:
        read_totals_file(path)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_and_missing_ones(tmp_path):
    path = tmp_path / "totals.csv"
    path.write_text("slot,total,arm\n0,1e3,\n1,,\n2,-.5, B \n3,0,\n4,0e-999,\n")
    assert read_totals_file(path) == [
        (0, 1000.0, None, {}, {}),
        (1, None, None, {}, {}),
        (2, -0.5, "B", {}, {}),
        (3, 0, None, {}, {}),
        (4, 0, None, {}, {}),
    ]
