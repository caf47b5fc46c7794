"""The loaders of Outbrain and Coupon: what they read, their cache, and errors for broken files."""

import csv
import gzip
import os
import random
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import aftereffect as ae
import make_data
from aftereffect.reproduction import datasets
from aftereffect.reproduction.adversarial import figures
from aftereffect.reproduction.datasets import ADS, COUPONS, load_coupon, load_outbrain
from make_data import ENDINGS, WEEKDAYS, format_csv, write_file

OUTBRAIN = make_data.make_outbrain(displays=300, seed=1)
COUPON = make_data.make_coupon(visits=400, seed=2)
CATEGORIES = make_data.list_clicked_categories(OUTBRAIN)
FLAGS = make_data.list_flags(COUPON)

HOLDS = {
    "clicks_train": "expected the comma-separated columns display_id, ad_id, clicked",
    "promoted_content": "expected the comma-separated columns ad_id, document_id",
    "documents_categories": "expected the comma-separated columns document_id, category_id, confidence_level",
    "coupon_list_train": "expected the comma-separated columns DISPFROM, "
    + ", ".join(f"USABLE_DATE_{day}" for day in WEEKDAYS)
    + ", COUPON_ID_hash",
    "coupon_visit_train": "expected the comma-separated columns I_DATE, VIEW_COUPON_ID_hash",
}


def write_files(folder: Path, files: dict[str, make_data.Rows], ending: str = ".csv") -> Path:
    for name, rows in files.items():
        write_file(folder, name, format_csv(rows), ending)
    return folder


def clicked_ads(folder: Path, ads: list[int]) -> Path:
    """Clicks on these ads, all in one display, where ad n leads to parent category n."""
    known = sorted(set(ads), reverse=True)
    files = {
        "clicks_train": [{"display_id": 1, "ad_id": ad, "clicked": 1} for ad in ads],
        "promoted_content": [{"ad_id": ad, "document_id": ad} for ad in known],
        "documents_categories": [
            {"document_id": ad, "category_id": 100 * ad, "confidence_level": 1} for ad in known
        ],
    }
    return write_files(folder, files)


def refusal(call, error=ae.InputError) -> str:
    """The message, one line."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.fixture
def outbrain(tmp_path):
    return write_files(tmp_path, OUTBRAIN)


@pytest.fixture
def coupon(tmp_path):
    return write_files(tmp_path, COUPON)


@pytest.fixture
def unpacked(monkeypatch):
    """The files that are opened, in order: none where a result is taken from the cache."""
    opened, read_blocks = [], datasets.read_blocks
    monkeypatch.setattr(
        datasets, "read_blocks", lambda path: opened.append(path.name) or read_blocks(path)
    )
    return opened


class TestOutbrain:
    def test_sample_has_what_makes_it_hard(self):
        assert 200 < len(CATEGORIES) < 300  # some clicks lead nowhere
        assert min(Counter(CATEGORIES).values()) > 10
        assert {row["document_id"] for row in OUTBRAIN["promoted_content"]} >= {r"\N"}

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_parents(self, tmp_path, ending):
        clicks = load_outbrain(write_files(tmp_path, OUTBRAIN, ending), len(CATEGORIES))
        assert clicks.names == ("11", "14", "15", "17", "19")  # also the one that is never clicked
        assert clicks.paying.dtype == np.int16
        assert [clicks.names[arm] for arm in clicks.paying] == [
            str(category // 100) for category in CATEGORIES
        ]

    def test_raw(self, outbrain):
        clicks = load_outbrain(outbrain, 100, arms="raw")
        assert clicks.names == ("1100", "1403", "1408", "1510", "1702", "1907", "1909")
        assert [clicks.names[arm] for arm in clicks.paying] == [
            str(category) for category in CATEGORIES[:100]
        ]

    @pytest.mark.parametrize("arms", [2, 3, 4])
    def test_most_clicked(self, outbrain, arms):
        parents = [category // 100 for category in CATEGORIES]
        chosen = sorted(
            sorted(set(parents), key=lambda parent: (-parents.count(parent), parent))[:arms]
        )
        expected = [str(parent) for parent in parents if parent in chosen]
        clicks = load_outbrain(outbrain, len(expected), arms=arms)
        assert clicks.names == tuple(map(str, chosen))
        assert [clicks.names[arm] for arm in clicks.paying] == expected
        assert refusal(lambda: load_outbrain(outbrain, len(expected) + 1, arms=arms)) == (
            f"cannot read {len(expected) + 1} slots from {outbrain}/clicks_train.csv: "
            f"it has {len(expected)} clicks on these arms"
        )

    def test_equally_many_clicks_go_to_the_smaller_id(self, tmp_path):
        found = load_outbrain(clicked_ads(tmp_path, [3, 2, 1, 3]), 3, arms=2)
        assert found.names == ("1", "3")
        assert found.paying.tolist() == [1, 0, 1]

    def test_many_blocks_are_as_one(self, outbrain, monkeypatch):
        at_once = load_outbrain(outbrain, 200)
        (outbrain / ".aftereffect-outbrain.npz").unlink()
        monkeypatch.setattr(datasets, "BLOCK", 100)
        assert load_outbrain(outbrain, 200).paying.tolist() == at_once.paying.tolist()

    def test_clicks_of_one_display_keep_their_order(self, tmp_path, monkeypatch):
        ads = random.Random(5).choices((1, 2), k=200)
        monkeypatch.setattr(datasets, "BLOCK", 50)
        assert (load_outbrain(clicked_ads(tmp_path, ads), 200).paying + 1).tolist() == ads

    def test_bare_comes_before_packed(self, outbrain, unpacked):
        write_file(outbrain, "clicks_train", b"broken", ".csv.gz")
        load_outbrain(outbrain, 10)
        assert unpacked == ["promoted_content.csv", "documents_categories.csv", "clicks_train.csv"]

    def test_last_line_without_its_end(self, tmp_path):
        write_file(
            clicked_ads(tmp_path, [1, 2]), "clicks_train", b"display_id,ad_id,clicked\n1,2,1"
        )
        assert load_outbrain(tmp_path, 1).paying.tolist() == [1]

    def test_quoted_names(self, outbrain):
        expected = load_outbrain(outbrain, 200).paying.tolist()
        _, _, rows = format_csv(OUTBRAIN["clicks_train"]).partition(b"\n")
        write_file(outbrain, "clicks_train", b'"display_id","ad_id","clicked"\n' + rows)
        assert load_outbrain(outbrain, 200).paying.tolist() == expected

    def test_windows_line_ends_mark_and_blank_lines(self, outbrain):
        expected = load_outbrain(outbrain, 200).paying.tolist()
        text = (
            b"\xef\xbb\xbf" + format_csv(OUTBRAIN["clicks_train"]).replace(b"\n", b"\r\n") + b"\r\n"
        )
        write_file(outbrain, "clicks_train", text)
        assert load_outbrain(outbrain, 200).paying.tolist() == expected

    def test_zip_from_a_mac(self, outbrain):
        expected = load_outbrain(outbrain, 200).paying.tolist()
        (outbrain / "clicks_train.csv").unlink()
        path = write_file(
            outbrain, "clicks_train", format_csv(OUTBRAIN["clicks_train"]), ".csv.zip"
        )
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("__MACOSX/._clicks_train.csv", b"resources")
        assert load_outbrain(outbrain, 200).paying.tolist() == expected


class TestCoupon:
    def test_sample_has_what_makes_it_hard(self):
        assert 200 < len(FLAGS) < 400
        times = [row["I_DATE"] for row in COUPON["coupon_visit_train"]]
        assert len(set(times)) < len(times)
        assert {flag for flags in FLAGS for flag in flags} == {0, 1, 2}

    @pytest.mark.parametrize("ending", ENDINGS)
    @pytest.mark.parametrize("rule", ["usable", "strict"])
    @pytest.mark.parametrize("only_choosy", [False, True])
    @pytest.mark.parametrize("with_visits", [False, True])
    def test_every_option(self, tmp_path, ending, rule, only_choosy, with_visits):
        files = COUPON if with_visits else {"coupon_list_train": COUPON["coupon_list_train"]}
        pays = {"usable": (1, 2), "strict": (1,)}[rule]
        expected = [[int(flag in pays) for flag in flags] for flags in make_data.list_flags(files)]
        if only_choosy:
            expected = [flags for flags in expected if 0 in flags]
        folder = write_files(tmp_path, files, ending)
        coupons = load_coupon(folder, len(expected), rule, only_choosy=only_choosy)
        assert coupons.flags.tolist() == expected
        assert coupons.flags.dtype == np.uint8
        assert coupons.names == WEEKDAYS
        what = (
            ("visits to coupons" if with_visits else "coupons")
            + " with flags"
            + ", not all set" * only_choosy
        )
        file = f"{'coupon_visit_train' if with_visits else 'coupon_list_train'}{ending}"
        assert refusal(
            lambda: load_coupon(folder, len(expected) + 1, rule, only_choosy=only_choosy)
        ) == (
            f"cannot read {len(expected) + 1} slots from {folder}/{file}: it has {len(expected)} {what}"
        )

    def test_first_slots(self, coupon):
        assert load_coupon(coupon, 5).flags.tolist() == [
            [int(flag > 0) for flag in flags] for flags in FLAGS[:5]
        ]

    def test_many_blocks_are_as_one(self, coupon, monkeypatch):
        monkeypatch.setattr(datasets, "BLOCK", 300)
        expected = [[int(flag > 0) for flag in flags] for flags in FLAGS]
        assert load_coupon(coupon, len(FLAGS)).flags.tolist() == expected


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


def test_stand_ins_are_shares():
    assert sum(figures.OUTBRAIN_PARENTS.values()) == pytest.approx(1)
    assert sum(figures.OUTBRAIN_PAGE_CLUSTERS) == pytest.approx(1)
    largest = sorted(figures.OUTBRAIN_PARENTS.values(), reverse=True)[:3]
    assert [share / sum(largest) for share in largest] == pytest.approx(
        figures.OUTBRAIN_THREE_LARGEST, abs=5e-4
    )
    assert len(figures.COUPON_WEEKDAYS) == 7


REAL = os.environ.get("AFTEREFFECT_DATA")


@pytest.mark.skipif(
    REAL is None,
    reason="set AFTEREFFECT_DATA to a folder with outbrain/ and coupon/ of original files",
)
class TestRealFiles:
    """Some of the originals, where they are; linked into a folder of the test's own, so that theirs stays as it is."""

    @pytest.fixture
    def coupons(self, tmp_path):
        (tmp_path / "coupon_list_train.csv").symlink_to(
            Path(REAL or "") / "coupon" / "coupon_list_train.csv"
        )
        return tmp_path

    def test_coupons(self, coupons):
        with (coupons / "coupon_list_train.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 19_413
        assert COUPONS.read(coupons / "coupon_list_train.csv").height == 12_408
        found = load_coupon(coupons, 12_408).flags
        flags = np.array(make_data.list_flags({"coupon_list_train": rows})).astype(int)
        assert (found == (flags > 0)).all()
        assert (load_coupon(coupons, 12_408, "strict").flags == (flags == 1)).all()
        assert found.mean(axis=0).round(3).tolist() == [
            0.918,
            0.927,
            0.967,
            0.971,
            0.949,
            0.873,
            0.868,
        ]
        assert refusal(lambda: load_coupon(coupons, 12_409)).endswith(
            "it has 12,408 coupons with flags"
        )

    def test_choosy_coupons(self, coupons):
        found = load_coupon(coupons, 4_537, only_choosy=True).flags
        assert found.mean(axis=0).round(3).tolist() == list(figures.COUPON_WEEKDAYS)
        message = refusal(lambda: load_coupon(coupons, 4_538, only_choosy=True))
        assert message.endswith("it has 4,537 coupons with flags, not all set")

    def test_clicks_on_real_ads(self, tmp_path):
        """Real clicks and ads; a published clustering of the documents stands for their categories."""
        real = Path(REAL or "") / "outbrain"
        (tmp_path / "promoted_content.csv.zip").symlink_to(real / "promoted_content.csv.zip")
        assert ADS.read(tmp_path / "promoted_content.csv.zip").height == 559_583
        with gzip.open(real / "clicks_sample_joined.csv.gz", "rt") as file:
            joined = list(csv.DictReader(file))
        clicks = [
            {name: row[name] for name in ("display_id", "ad_id", "clicked")} for row in joined
        ]
        write_file(tmp_path, "clicks_train", format_csv(clicks), ".csv.gz")
        with gzip.open(real / "doc_clusters_200k.csv.gz", "rt") as file:
            cluster = {
                row["document_id"]: int(row["category_cluster"]) for row in csv.DictReader(file)
            }
        categories = [
            {
                "document_id": document,
                "category_id": 100 * number + rank,
                "confidence_level": 0.9 - 0.8 * rank,
            }
            for document, number in cluster.items()
            for rank in (1, 0)
        ]
        write_file(tmp_path, "documents_categories", format_csv(categories))

        clicked = sorted(
            (row for row in joined if row["clicked"] == "1"), key=lambda row: int(row["display_id"])
        )
        expected = [cluster[row["document_id"]] for row in clicked if row["document_id"] in cluster]
        assert len(clicked) == 21_899
        assert expected == [int(row["ad_cat_cluster"]) for row in clicked if row["ad_cat_cluster"]]
        found = load_outbrain(tmp_path, len(expected))
        assert [int(found.names[arm]) for arm in found.paying] == expected
        assert found.names == tuple(str(number) for number in sorted(set(cluster.values())))
        raw = load_outbrain(tmp_path, len(expected), "raw")
        assert [raw.names[arm] for arm in raw.paying] == [str(100 * number) for number in expected]
        assert load_outbrain(tmp_path, 100, 2).names == tuple(
            map(str, sorted(n for n, _ in Counter(expected).most_common(2)))
        )
        assert refusal(lambda: load_outbrain(tmp_path, 10**6)).endswith(
            f"it has {len(expected):,} clicks on these arms"
        )
