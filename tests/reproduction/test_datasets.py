"""The loaders of Outbrain and Coupon: what they read, from made-up files and from some originals."""

import csv
import gzip
import os
import random
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from aftereffect.reproduction import datasets
from aftereffect.reproduction.adversarial import rewards
from aftereffect.reproduction.coupon import COUPONS, load_coupon
from aftereffect.reproduction.outbrain import ADS, load_outbrain
from make_data import (
    COUPON,
    ENDINGS,
    OUTBRAIN,
    WEEKDAYS,
    format_csv,
    list_clicked_categories,
    list_flags,
    refusal,
    write_file,
    write_files,
)

CATEGORIES = list_clicked_categories(OUTBRAIN)
FLAGS = list_flags(COUPON)


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
        expected = [[int(flag in pays) for flag in flags] for flags in list_flags(files)]
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


def test_stand_ins_are_shares():
    assert sum(rewards.OUTBRAIN_PARENTS.values()) == pytest.approx(1)
    assert sum(rewards.OUTBRAIN_PAGE_CLUSTERS) == pytest.approx(1)
    largest = sorted(rewards.OUTBRAIN_PARENTS.values(), reverse=True)[:3]
    assert [share / sum(largest) for share in largest] == pytest.approx(
        rewards.OUTBRAIN_THREE_LARGEST, abs=5e-4
    )
    assert len(rewards.COUPON_WEEKDAYS) == 7


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
        flags = np.array(list_flags({"coupon_list_train": rows})).astype(int)
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
        assert found.mean(axis=0).round(3).tolist() == list(rewards.COUPON_WEEKDAYS)
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
