"""Files of the data sets that are cached, broken, missing or refused."""

import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import aftereffect as ae
from aftereffect.reproduction import datasets
from aftereffect.reproduction.coupon import load_coupon
from aftereffect.reproduction.outbrain import load_outbrain
from make_data import (
    COUPON,
    ENDINGS,
    OUTBRAIN,
    WEEKDAYS,
    format_csv,
    list_clicked_categories,
    refusal,
    write_file,
    write_files,
)

CATEGORIES = list_clicked_categories(OUTBRAIN)

HOLDS = {
    "clicks_train": "expected the comma-separated columns display_id, ad_id, clicked",
    "promoted_content": "expected the comma-separated columns ad_id, document_id",
    "documents_categories": "expected the comma-separated columns document_id, category_id, confidence_level",
    "coupon_list_train": "expected the comma-separated columns DISPFROM, "
    + ", ".join(f"USABLE_DATE_{day}" for day in WEEKDAYS)
    + ", COUPON_ID_hash",
    "coupon_visit_train": "expected the comma-separated columns I_DATE, VIEW_COUPON_ID_hash",
}


class TestCache:
    def test_one_reading_serves_all_options(self, outbrain, unpacked):
        load_outbrain(outbrain, 10)
        assert len(unpacked) == 3
        clicks = load_outbrain(outbrain, 200, arms="raw")
        assert len(unpacked) == 3
        assert [clicks.names[arm] for arm in clicks.paying] == [
            str(category) for category in CATEGORIES[:200]
        ]

    def test_coupon(self, coupon, unpacked):
        first = load_coupon(coupon, 100)
        assert load_coupon(coupon, 100).flags.tolist() == first.flags.tolist()
        assert load_coupon(coupon, 10, "strict", only_choosy=True).flags.shape == (10, 7)
        assert len(unpacked) == 2

    def test_nothing_else_is_left(self, outbrain):
        before = {path.name for path in outbrain.iterdir()}
        load_outbrain(outbrain, 10)
        assert {path.name for path in outbrain.iterdir()} == before | {".aftereffect-outbrain.npz"}

    @pytest.mark.parametrize("name", OUTBRAIN)
    def test_changed_source_is_noticed(self, outbrain, unpacked, name):
        load_outbrain(outbrain, 10)
        state = (outbrain / f"{name}.csv").stat()
        os.utime(outbrain / f"{name}.csv", ns=(state.st_atime_ns, state.st_mtime_ns + 1))
        load_outbrain(outbrain, 10)
        assert len(unpacked) == 6

    def test_new_rows_are_read(self, coupon):
        before = load_coupon(coupon, 1)
        write_file(coupon, "coupon_visit_train", format_csv(COUPON["coupon_visit_train"][:1] * 500))
        after = load_coupon(coupon, 500)
        assert (after.flags == after.flags[0]).all()
        assert before.flags.shape == (1, 7)

    def test_visits_that_come_or_go_are_noticed(self, coupon):
        with_visits = load_coupon(coupon, 20).flags.tolist()
        (coupon / "coupon_visit_train.csv").rename(coupon / "elsewhere")
        assert load_coupon(coupon, 20).flags.tolist() != with_visits
        (coupon / "elsewhere").rename(coupon / "coupon_visit_train.csv")
        assert load_coupon(coupon, 20).flags.tolist() == with_visits

    def test_changed_package_reads_anew(self, outbrain, unpacked, monkeypatch):
        load_outbrain(outbrain, 10)
        monkeypatch.setattr(datasets, "describe_code", lambda: "aftereffect 99")
        load_outbrain(outbrain, 10)
        assert len(unpacked) == 6

    @pytest.mark.parametrize(
        "damage",
        [
            lambda content: b"",
            lambda content: b"not an npz file",
            lambda content: content[: len(content) // 2],
            lambda content: content[:200] + bytes([content[200] ^ 255]) + content[201:],
            lambda content: b"\x93NUMPY" + content,
        ],
        ids=["empty", "other", "cut", "flipped", "array"],
    )
    def test_damage_is_repaired(self, outbrain, unpacked, damage):
        expected = load_outbrain(outbrain, 200).paying.tolist()
        cached = outbrain / ".aftereffect-outbrain.npz"
        cached.write_bytes(damage(cached.read_bytes()))
        for _ in range(2):
            assert load_outbrain(outbrain, 200).paying.tolist() == expected
        assert len(unpacked) == 6

    def test_unwritable_folder_does_as_well(self, outbrain, unpacked, monkeypatch):
        def refuse(path, **arrays):
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(
            np, "savez_compressed", refuse
        )  # the tests may run as root, who may write everywhere
        before = sorted(outbrain.iterdir())
        assert (
            load_outbrain(outbrain, 50).paying.tolist()
            == load_outbrain(outbrain, 100).paying[:50].tolist()
        )
        assert len(unpacked) == 6
        assert sorted(outbrain.iterdir()) == before


class TestNothingIsLeftBehind:
    @pytest.fixture
    def places(self, tmp_path, monkeypatch):
        """The data's folder and the system's folder for temporary files."""
        data, temporary = tmp_path / "data", tmp_path / "temporary"
        data.mkdir()
        temporary.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        return data, temporary

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_when_interrupted_while_reading(self, places, ending, monkeypatch):
        data, temporary = places
        write_files(data, OUTBRAIN, ending)
        before = sorted(data.iterdir())

        read_blocks = datasets.read_blocks

        def interrupted(path):
            lines = read_blocks(path)
            yield next(lines)
            yield next(lines)
            raise KeyboardInterrupt

        monkeypatch.setattr(datasets, "read_blocks", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load_outbrain(data, 10)
        assert sorted(data.iterdir()) == before
        assert not list(temporary.iterdir())

    def test_when_interrupted_while_writing(self, places, monkeypatch):
        data, temporary = places
        write_files(data, OUTBRAIN)
        before = sorted(data.iterdir())

        def interrupted(path, **arrays):
            path.write_bytes(b"a part")
            raise KeyboardInterrupt

        monkeypatch.setattr(np, "savez_compressed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load_outbrain(data, 10)
        assert sorted(data.iterdir()) == before
        assert not list(temporary.iterdir())

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_when_a_file_is_broken(self, places, ending):
        data, temporary = places
        write_files(data, OUTBRAIN, ending)
        write_file(data, "clicks_train", format_csv(OUTBRAIN["clicks_train"]) + b"1,x,1\n", ending)
        before = sorted(data.iterdir())
        refusal(lambda: load_outbrain(data, 10))
        assert sorted(data.iterdir()) == before
        assert not list(temporary.iterdir())


CLICKS_TEXT = format_csv(OUTBRAIN["clicks_train"])
VISITS_TEXT = format_csv(COUPON["coupon_visit_train"])
LINES = CLICKS_TEXT.count(b"\n")


class TestBrokenFiles:
    @pytest.mark.parametrize(
        ("name", "text", "problem"),
        [
            ("clicks_train", b"", "it is empty"),
            ("promoted_content", b"", "it is empty"),
            ("documents_categories", b"\n1,2,3\n", "its first line is empty"),
            ("clicks_train", b"display_id,ad_id,clicked\n", "it has no rows"),
            ("clicks_train", b"display_id,ad_id\n1,2\n", "it lacks the column clicked"),
            ("documents_categories", b"document_id,topic_id\n1,2\n", "it lacks the columns category_id, confidence_level"),
            ("clicks_train", CLICKS_TEXT.replace(b",", b";"), "its columns are separated by ';'"),
            ("promoted_content", b"ad_id\tdocument_id\n1\t2\n", r"its columns are separated by '\t'"),
            ("clicks_train", CLICKS_TEXT + b"7,many,1\n",
             f"line {LINES + 1:,} has 'many' in the column ad_id, which holds whole numbers"),
            ("clicks_train", b"display_id,ad_id,clicked\n1,2,1\n1.5,2,1\n",
             "line 3 has '1.5' in the column display_id, which holds whole numbers"),
            ("promoted_content", b"ad_id,document_id\n1,99999999999999999999\n",
             "line 2 has '99999999999999999999' in the column document_id, which holds whole numbers"),
            ("documents_categories", b"document_id,category_id,confidence_level\n1,1400,.9\n1,1500,high\n",
             "line 3 has 'high' in the column confidence_level, which holds numbers"),
            ("documents_categories", b"document_id,category_id,confidence_level\n1,1400,nan\n",
             "line 2 has 'nan' in the column confidence_level, which holds numbers"),
            ("clicks_train", CLICKS_TEXT + b"1,2,\xff\n", f"line {LINES + 1:,} is not UTF-8 text"),
            ("clicks_train", CLICKS_TEXT.decode().encode("utf-16"), "line 1 is not UTF-8 text"),
            ("clicks_train", b'display_id,ad_id,clicked\n1,"2,1\n', "what follows line 1 is not comma-separated text"),
            ("clicks_train", b"display_id,ad_id,clicked\n1,2,0\n1,3,0\n", "none of its rows has clicked = 1"),
            ("clicks_train", b"display_id,ad_id,clicked\n1,1000,1\n2,1001,1\n",
             "none of its 2 clicks leads through promoted_content{ending} to a category in documents_categories{ending}"),
            ("documents_categories",
             b"document_id,category_id,confidence_level\n" + b"".join(b"1,%d,1\n" % category for category in range(40_000)),
             "it has 40,000 different categories"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("ending", ENDINGS)
    def test_outbrain(self, tmp_path, name, text, problem, ending):
        path = write_file(write_files(tmp_path, OUTBRAIN, ending), name, text, ending)
        expected = f"cannot read {path}: {problem.replace('{ending}', ending)}; {HOLDS[name]}"
        assert refusal(lambda: load_outbrain(tmp_path, 10)) == expected

    @pytest.mark.parametrize(
        ("name", "text", "problem"),
        [
            ("coupon_list_train", b"", "it is empty"),
            ("coupon_list_train", "CAPSULE_TEXT\nグルメ\n".encode(),
             f"it lacks the columns DISPFROM, {', '.join(f'USABLE_DATE_{day}' for day in WEEKDAYS)}, COUPON_ID_hash"),
            ("coupon_list_train", format_csv(COUPON["coupon_list_train"]).decode().encode("shift-jis"),
             "line 2 is not UTF-8 text"),
            ("coupon_list_train", format_csv([COUPON["coupon_list_train"][0] | {"USABLE_DATE_FRI": "yes"}]),
             "line 2 has 'yes' in the column USABLE_DATE_FRI, which holds whole numbers"),
            ("coupon_list_train", format_csv([COUPON["coupon_list_train"][0] | {"USABLE_DATE_FRI": "NA"}]),
             "none of its coupons has flags"),
            ("coupon_visit_train", VISITS_TEXT.replace(b",", b"|"), "its columns are separated by '|'"),
            ("coupon_visit_train", format_csv([COUPON["coupon_visit_train"][0] | {"I_DATE": "31/01/2012"}]),
             "line 2 has '31/01/2012' in the column I_DATE, which holds times such as 2012-01-31 09:30:00"),
            ("coupon_visit_train", format_csv([COUPON["coupon_visit_train"][0] | {"VIEW_COUPON_ID_hash": "f" * 32}]),
             "none of its visits is to a coupon that has flags in coupon_list_train.csv"),
        ],
    )  # fmt: skip
    def test_coupon(self, coupon, name, text, problem):
        path = write_file(coupon, name, text)
        assert (
            refusal(lambda: load_coupon(coupon, 10))
            == f"cannot read {path}: {problem}; {HOLDS[name]}"
        )

    @pytest.mark.parametrize(
        "content",
        [
            lambda whole: whole[: len(whole) // 2],
            lambda whole: whole[:-4],
            lambda whole: whole[:300] + b"damage" + whole[306:],
            lambda whole: b"<html>",
        ],
        ids=["half", "almost", "damaged", "other"],
    )
    @pytest.mark.parametrize(("ending", "called"), [(".csv.zip", "zip"), (".csv.gz", "gzip")])
    def test_packing(self, tmp_path, content, ending, called):
        path = write_files(tmp_path, OUTBRAIN, ending) / f"clicks_train{ending}"
        path.write_bytes(content(path.read_bytes()))
        assert refusal(lambda: load_outbrain(tmp_path, 10)) == (
            f"cannot read {path}: it is not a complete {called} file of clicks_train.csv, download it again"
        )

    def test_nothing_packed(self, tmp_path):
        (write_files(tmp_path, OUTBRAIN, ".csv.gz") / "clicks_train.csv.gz").write_bytes(b"")
        expected = (
            f"cannot read {tmp_path}/clicks_train.csv.gz: it is empty; {HOLDS['clicks_train']}"
        )
        assert refusal(lambda: load_outbrain(tmp_path, 10)) == expected
        (tmp_path / "clicks_train.csv.gz").rename(tmp_path / "clicks_train.csv.zip")
        expected = f"cannot read {tmp_path}/clicks_train.csv.zip: it is not a complete zip file of clicks_train.csv, download it again"
        assert refusal(lambda: load_outbrain(tmp_path, 10)) == expected

    @pytest.mark.parametrize(
        ("members", "holds"),
        [((), "none"), (("readme.txt",), "none"), (("a.csv", "b.csv"), "a.csv, b.csv")],
    )
    def test_zip_of_none_or_several(self, tmp_path, members, holds):
        path = write_files(tmp_path, OUTBRAIN, ".csv.zip") / "clicks_train.csv.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for member in members:
                archive.writestr(member, CLICKS_TEXT)
        expected = f"cannot read {path}: expected one csv file in it, found {holds}"
        assert refusal(lambda: load_outbrain(tmp_path, 10)) == expected

    def test_encrypted_zip(self, tmp_path):
        path = write_files(tmp_path, OUTBRAIN, ".csv.zip") / "clicks_train.csv.zip"
        content = bytearray(path.read_bytes())
        content[6] |= 1  # the flags of the member and of its entry in the directory
        content[content.index(b"PK\x01\x02") + 8] |= 1
        path.write_bytes(content)
        assert refusal(lambda: load_outbrain(tmp_path, 10)) == (
            f"cannot read {path}: unpack it to clicks_train.csv with another program "
            "(File 'clicks_train.csv' is encrypted, password required for extraction)"
        )

    def test_what_the_system_refuses(self, outbrain, monkeypatch):
        really_open = Path.open

        def refuse(path, *args, **kwargs):
            if path.suffix == ".csv":
                raise PermissionError(13, "Permission denied")
            return really_open(path, *args, **kwargs)

        monkeypatch.setattr(Path, "open", refuse)
        assert refusal(lambda: load_outbrain(outbrain, 10)) == (
            f"cannot read {outbrain}/promoted_content.csv: Permission denied"
        )

    @pytest.mark.parametrize(("load", "files"), [(load_outbrain, OUTBRAIN), (load_coupon, COUPON)])
    def test_missing_files(self, tmp_path, load, files):
        write_files(tmp_path, files)
        for name in files:
            if name != "coupon_visit_train":
                (tmp_path / f"{name}.csv").rename(tmp_path / "elsewhere")
                assert refusal(lambda: load(tmp_path, 10)) == (
                    f"cannot read {tmp_path}: it has none of {name}.csv, {name}.csv.gz, {name}.csv.zip; {HOLDS[name]}"
                )
                (tmp_path / "elsewhere").rename(tmp_path / f"{name}.csv")

    @pytest.mark.parametrize("load", [load_outbrain, load_coupon])
    def test_missing_folder(self, tmp_path, load):
        assert (
            refusal(lambda: load(tmp_path / "none", 10))
            == f"cannot read {tmp_path}/none: there is no such folder"
        )
        (tmp_path / "file").touch()
        assert (
            refusal(lambda: load(str(tmp_path / "file"), 10))
            == f"cannot read {tmp_path}/file: it is not a folder"
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: load_outbrain(folder, 0), "slots must be a whole number of at least 1, got 0"),
        (lambda folder: load_outbrain(folder, 1.5), "slots must be a whole number of at least 1, got 1.5"),
        (lambda folder: load_coupon(folder, "10"), "slots must be a whole number of at least 1, got '10'"),
        (lambda folder: load_outbrain(folder, 10, "parent"), "unknown arms 'parent': did you mean 'parents'?"),
        (lambda folder: load_outbrain(folder, 10, "x"), "unknown arms 'x': known: parents, raw"),
        (lambda folder: load_outbrain(folder, 10, 1),
         "arms, if neither 'parents' nor 'raw', must be a whole number of at least 2, got 1"),
        (lambda folder: load_outbrain(folder, 10, None),
         "arms, if neither 'parents' nor 'raw', must be a whole number of at least 2, got None"),
        (lambda folder: load_coupon(folder, 10, "stric"), "unknown rule 'stric': did you mean 'strict'?"),
        (lambda folder: load_coupon(folder, 10, None), "unknown rule None: known: usable, strict"),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_before_any_file(tmp_path, call, message):
    assert refusal(lambda: call(tmp_path / "none"), ae.ParameterError) == message


def test_more_arms_than_there_are(outbrain):
    assert refusal(lambda: load_outbrain(outbrain, 10, 6), ae.ParameterError) == (
        f"arms must be at most 5, the number of parent categories in {outbrain}/documents_categories.csv, got 6"
    )


def test_without_polars(outbrain, monkeypatch):
    monkeypatch.setattr("aftereffect._core.installation.find_spec", lambda module: None)
    assert refusal(lambda: load_outbrain(outbrain, 10), ae.MissingExtraError) == (
        'this needs polars: pip install "aftereffect[data]"'
    )
