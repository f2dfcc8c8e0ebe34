"""Every format and export is read from a file written in its real layout.

Covers: data.attributes, data.files.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import saft
from saft.data.network import HIDDEN


def write(frame: pl.DataFrame, path: Path) -> Path:
    """The frame in the format and compression of the name."""
    name = path.name
    plain = path.with_name(name.removesuffix(".gz").removesuffix(".zst"))
    kind = plain.suffix
    if name.endswith(".zst"):
        sink = frame.lazy().sink_csv if kind in (".csv", ".tsv") else frame.lazy().sink_ndjson
        separator = {"separator": "\t"} if kind == ".tsv" else {}
        sink(path, compression="zstd", **separator)
        return path
    if kind == ".csv":
        frame.write_csv(plain)
    elif kind == ".tsv":
        frame.write_csv(plain, separator="\t")
    elif kind == ".jsonl":
        frame.write_ndjson(plain)
    else:
        frame.write_parquet(plain)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    return path


FORMATS = ["x.csv", "x.tsv", "x.jsonl", "x.parquet"]
COMPRESSED = [f"{name}.gz" for name in FORMATS] + ["x.csv.zst", "x.tsv.zst", "x.jsonl.zst"]


def assert_is_the_example(network: saft.TextualInteractionNetwork) -> None:
    assert network.user_ids.to_list() == ["ann", "bob"]
    assert network.item_ids.to_list() == ["lamp", "rug"]
    assert network.users.tolist() == [0, 1, 0, 0]
    assert network.items.tolist() == [0, 0, 1, 0]
    assert network.texts.to_list()[2] == "line one\nline two"
    assert network.classes.to_list() == ["bad", "good"]
    assert network.labels.tolist() == [1, 0, HIDDEN, 1]
    assert network.times is not None
    assert network.times[0] == np.datetime64("2017-07-14T02:40:00")


@pytest.mark.parametrize("name", FORMATS + COMPRESSED)
def test_every_format_gives_the_same_network(tmp_path, rows, name):
    assert_is_the_example(saft.read(write(pl.DataFrame(rows), tmp_path / name)))


def test_polars_frames_pandas_frames_and_lists_of_dicts_give_the_same_network(rows):
    for source in (pl.DataFrame(rows), pl.DataFrame(rows).lazy(), pd.DataFrame(rows), rows):
        assert_is_the_example(saft.read(source))


def test_a_pandas_frame_with_integers_beside_missing_values_keeps_its_ids_and_labels():
    frame = pd.DataFrame({"user": [1, 2, 2], "item": ["a", "b", "a"], "text": ["x", None, "z"], "label": [5, None, 4]})
    with pytest.warns(saft.InputWarning, match="no text in row 2"):
        network = saft.read(frame)
    assert network.user_ids.to_list() == [1, 2]
    assert network.label_values().to_list() == [5, None, 4]


def test_pandas_columns_with_types_of_their_own_and_arrow_tables_are_read(rows):
    frame = pd.DataFrame(rows).astype({"user": "category"})
    frame["label"] = pd.array([5, None, 4, 5], dtype="Int64")
    frame["time"] = pd.to_datetime(frame["time"], unit="s", utc=True).where([True, True, False, True])
    for source in (frame, pl.DataFrame(rows).with_columns(label=pl.Series([5, None, 4, 5])).to_arrow()):
        network = saft.read(source)
        assert network.user_ids.to_list() == ["ann", "bob"]
        assert network.label_values().to_list() == [5, None, 4, 5]
        assert network.label_values().dtype == pl.Int64
        assert network.times[0] == np.datetime64("2017-07-14T02:40:00")
    assert np.isnat(saft.read(frame).times[2])


def test_a_glob_reads_all_matching_files_in_the_order_of_their_names(tmp_path, rows):
    frame = pl.DataFrame(rows)
    write(frame[2:], tmp_path / "part-2.csv.gz")
    write(frame[:2], tmp_path / "part-1.csv")
    assert_is_the_example(saft.read(str(tmp_path / "part-*")))
    assert_is_the_example(saft.read([tmp_path / "part-1.csv", tmp_path / "part-2.csv.gz"]))


def test_files_of_different_formats_are_read_together(tmp_path, rows):
    write(pl.DataFrame(rows[:2]), tmp_path / "a.csv")
    write(pl.DataFrame(rows[2:]), tmp_path / "b.jsonl")
    assert_is_the_example(saft.read(str(tmp_path / "*")))


def test_files_called_train_valid_and_test_are_a_split(tmp_path, rows):
    for name, part in (("train", rows[:2]), ("val", rows[2:3]), ("test", rows[3:])):
        write(pl.DataFrame(part), tmp_path / f"{name}.jsonl")
    network = saft.read(str(tmp_path / "*.jsonl"))
    assert network.splits.to_list() == ["test", "train", "train", "valid"]


def test_semicolons_between_columns_are_recognised(tmp_path):
    path = tmp_path / "excel.csv"
    path.write_text("User ID;Product;Comment;Rating\n1;a;well, fine;5\n2;a;no;1\n")
    network = saft.read(path)
    assert network.texts.to_list() == ["well, fine", "no"]
    assert network.classes.to_list() == [1, 5]


def test_utf_16_and_named_encodings_are_read(tmp_path):
    table = "user\titem\ttext\tlabel\nzoë\tcafé\tcrème\t1\nann\tcafé\tbrûlée\t2\n"
    (tmp_path / "a.tsv").write_bytes(table.encode("utf-16"))
    (tmp_path / "b.tsv").write_bytes(table.encode("latin-1"))
    for network in (saft.read(tmp_path / "a.tsv"), saft.read(tmp_path / "b.tsv", encoding="latin-1")):
        assert network.user_ids.to_list() == ["zoë", "ann"]
        assert network.texts.to_list() == ["crème", "brûlée"]


# Exports in their real layouts. Values are made up; names, nesting and types are those of the public files.
AMAZON_2014 = [
    {
        "reviewerID": "A1", "asin": "B01", "reviewerName": "Ann", "helpful": [0, 2], "reviewText": "Sturdy stand.",
        "overall": 5.0, "summary": "Good", "unixReviewTime": 1393545600, "reviewTime": "02 28, 2014",
    },
    {
        "reviewerID": "A2", "asin": "B01", "helpful": [1, 1], "reviewText": "Wobbles.",
        "overall": 2.0, "summary": "Meh", "unixReviewTime": 1363392000, "reviewTime": "03 16, 2013",
    },
]  # fmt: skip
AMAZON_2018 = [
    {
        "overall": 5.0, "verified": True, "reviewTime": "09 1, 2016", "reviewerID": "A1", "asin": "B01",
        "style": {"Size:": " 7.0 oz", "Flavor:": " Classic"}, "reviewerName": "Ann", "reviewText": "As advertised",
        "summary": "Five Stars", "unixReviewTime": 1472688000,
    },
    {
        "overall": 4.0, "vote": "3", "verified": False, "reviewTime": "11 14, 2013", "reviewerID": "A2", "asin": "B01",
        "style": {"Color:": " Red"}, "reviewerName": "Bob", "reviewText": "Like the scent", "summary": "ok",
        "unixReviewTime": 1384387200, "image": ["https://example.invalid/1.jpg"],
    },
]  # fmt: skip
AMAZON_2023 = [
    {
        "rating": 5.0, "title": "Such a scent", "text": "Lovely.", "images": [], "asin": "B0V1", "parent_asin": "B0P",
        "user_id": "AG", "timestamp": 1588687728923, "helpful_vote": 0, "verified_purchase": True,
    },
    {
        "rating": 4.0, "title": "Works", "text": "Fine.", "images": [{"small_image_url": "https://example.invalid/s"}],
        "asin": "B0V2", "parent_asin": "B0P", "user_id": "AF", "timestamp": 1588615855070, "helpful_vote": 1,
        "verified_purchase": True,
    },
]  # fmt: skip
GOODREADS = [
    {
        "user_id": "8842", "book_id": "18245960", "review_id": "dfdb", "rating": 5, "review_text": "A grand idea.",
        "date_added": "Sun Jul 30 07:44:10 -0700 2017", "date_updated": "Wed Aug 30 00:00:26 -0700 2017",
        "read_at": "Sat Aug 26 12:05:52 -0700 2017", "started_at": "", "n_votes": 28, "n_comments": 1,
    },
    {
        "user_id": "8843", "book_id": "18245960", "review_id": "a5d2", "rating": 0, "review_text": "Could not finish.",
        "date_added": "Mon Aug 01 09:00:00 -0700 2016", "date_updated": "", "read_at": "", "started_at": "",
        "n_votes": 0, "n_comments": 0,
    },
]  # fmt: skip
GOOGLE_LOCAL = [
    {
        "user_id": "101463350189962023774", "name": "Jordan", "time": 1627750414677, "rating": 5, "text": "Cool place",
        "pics": [{"url": ["https://example.invalid/p"]}], "resp": {"time": 1627042799532, "text": "Thanks!"},
        "gmap_id": "0x87ec:0xaf9f",
    },
    {
        "user_id": "101477177500158511502", "name": "Dana", "time": 1625000000000, "rating": 4, "text": "Quiet",
        "pics": None, "resp": None, "gmap_id": "0x87ec:0xaf9f",
    },
]  # fmt: skip
YELP = [
    {
        "review_id": "KU_O", "user_id": "mh_-", "business_id": "XQfw", "stars": 3.0, "useful": 0, "funny": 0, "cool": 0,
        "text": "Be prepared to wait.", "date": "2018-07-07 22:09:11",
    },
    {
        "review_id": "BiTu", "user_id": "OyoG", "business_id": "7ATY", "stars": 5.0, "useful": 1, "funny": 0, "cool": 1,
        "text": "Good spin class.", "date": "2012-01-03 15:28:18",
    },
]  # fmt: skip
EXPORTS = {
    "amazon_2014": (AMAZON_2014, ("reviewerID", "asin", "reviewText", "overall", "unixReviewTime"), "2014-02-28"),
    "amazon_2018": (AMAZON_2018, ("reviewerID", "asin", "reviewText", "overall", "unixReviewTime"), "2016-09-01"),
    "amazon_2023": (AMAZON_2023, ("user_id", "parent_asin", "text", "rating", "timestamp"), "2020-05-05"),
    "goodreads": (GOODREADS, ("user_id", "book_id", "review_text", "rating", "date_added"), "2017-07-30"),
    "google_local": (GOOGLE_LOCAL, ("user_id", "gmap_id", "text", "rating", "time"), "2021-07-31"),
    "yelp": (YELP, ("user_id", "business_id", "text", "stars", "date"), "2018-07-07"),
}


@pytest.mark.parametrize("export", EXPORTS)
def test_the_columns_of_known_exports_are_recognised(tmp_path, export):
    records, (user, item, text, label, time), day = EXPORTS[export]
    path = tmp_path / f"{export}.json.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(record) + "\n" for record in records).encode()))
    network = saft.read(path)
    assert network.column_names == {"user": user, "item": item, "text": text, "label": label, "time": time}
    assert network.user_ids.to_list() == [record[user] for record in records]
    assert network.texts.to_list() == [record[text] for record in records]
    assert network.label_values().to_list() == [record[label] for record in records]
    assert str(network.times[0].astype("datetime64[D]")) == day
    assert set(network.to_frame().columns) == set().union(*records)


@pytest.mark.parametrize("mark", [r"\$\$", "$$"])
def test_edgeformers_lines_are_read_as_text_user_item_label(tmp_path, mark):
    lines = [('a fine book, "really"', 0, 0, 4), ("not $5 good", 1, 0, 0), ("again", 0, 1, 4)]
    for name, part in (("train", lines[:2]), ("test", lines[2:])):
        text = "".join(mark.join(map(str, line)) + "\n" for line in part)
        (tmp_path / f"{name}.tsv").write_text(text)
    network = saft.read(str(tmp_path / "*.tsv"))
    assert network.texts.to_list() == ["again", 'a fine book, "really"', "not $5 good"]
    assert network.user_ids.gather(pl.Series(network.users)).to_list() == [0, 0, 1]
    assert network.label_values().to_list() == [4, 4, 0]
    assert network.splits.to_list() == ["test", "train", "train"]


def test_given_column_names_win_over_guesses(rows):
    renamed = [
        {"who": r["user"], "what": r["item"], "said": r["text"], "verdict": r["label"], "user": "x"} for r in rows
    ]
    network = saft.read(renamed, user="who", item="what", text="said", label="verdict")
    assert network.user_ids.to_list() == ["ann", "bob"]
    assert network.column_names["label"] == "verdict"


def test_ids_with_leading_zeros_stay_apart_and_plain_numbers_become_integers(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("user,item,text,label\n7,1,a,1\n007,2,b,2\n")
    network = saft.read(path)
    assert network.user_ids.to_list() == ["7", "007"]
    assert network.item_ids.to_list() == [1, 2]


def test_labels_come_back_as_they_were_given(tmp_path):
    for values in (["1", "2"], ["1.0", "2.5"], ["01", "1"], ["yes", "no"], ["1e3", "2"]):
        path = tmp_path / "x.csv"
        path.write_text("user,item,text,label\n" + "".join(f"u,i,t,{value}\n" for value in values))
        assert [str(value) for value in saft.read(path).label_values()] == values


def test_rows_keep_their_order_and_the_table_comes_back_whole(tmp_path, rows):
    frame = (
        pl.DataFrame(rows)
        .with_columns(note=pl.Series(["p", "q", None, "s"]))
        .select("note", "label", "text", "user", "item")
    )
    network = saft.read(write(frame, tmp_path / "x.parquet"))
    assert network.to_frame().equals(frame)


def test_blank_labels_mean_to_predict(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('user,item,text,label\nu,i,a,x\nu,i,b,""\nu,i,c,\nu,i,d,  \nu,i,e,y\n')
    assert saft.read(path).label_values().to_list() == ["x", None, None, None, "y"]


def test_rows_to_predict_need_no_label_column(rows):
    network = saft.read([{"user": r["user"], "item": r["item"], "text": r["text"]} for r in rows], labelled=False)
    assert (network.labels == HIDDEN).all()
    assert network.label_values().to_list() == [None] * 4
    assert network.to_frame().columns == ["user", "item", "text"]


def test_empty_texts_are_kept_counted_and_warned_about(rows):
    rows[0]["text"], rows[2]["text"] = None, ""
    with pytest.warns(saft.InputWarning, match=r"no text in 2 rows \(1, 3\) of 4"):
        network = saft.read(rows)
    assert len(network) == 4
    assert network.summary().empty_texts == 2


def test_attribute_columns_give_one_row_per_user_and_item(rows):
    for row, age, price in zip(rows, [30, 41, None, 30], [9.5, 9.5, 20.0, 9.5], strict=True):
        row |= {"age": age, "price": price}
    network = saft.read(rows, user_attributes=["age"], item_attributes=["price"])
    assert network.user_attributes.rows() == [(30,), (41,)]
    assert network.item_attributes.rows() == [(9.5,), (20.0,)]


def test_an_attribute_may_have_any_name(rows):
    for row in rows:
        row |= {"code": row["user"].upper(), "code_": 1}
    assert saft.read(rows, user_attributes=["code", "code_"]).user_attributes.rows() == [("ANN", 1), ("BOB", 1)]


def test_an_attribute_that_changes_is_warned_about_and_the_first_value_kept(rows):
    for row, age in zip(rows, [30, 41, 31, 30], strict=True):
        row["age"] = age
    with pytest.warns(saft.InputWarning, match="'age' changes between rows of the same user for 1 of 2 users"):
        network = saft.read(rows, user_attributes=["age"])
    assert network.user_attributes["age"].to_list() == [30, 41]


def test_side_tables_are_joined_by_id(tmp_path, rows):
    (tmp_path / "users.csv").write_text("user_id,age\nbob,41\nann,30\nzoe,50\n")
    items = [{"item": "rug", "colour": "red"}]
    with pytest.warns(saft.InputWarning, match="1 of 2 items are not in it"):
        network = saft.read(rows, user_table=tmp_path / "users.csv", item_table=items)
    assert network.user_attributes["age"].to_list() == [30, 41]
    assert network.item_attributes["colour"].to_list() == [None, "red"]


# Round trips. "\x00" ends a string for some readers of JSON; lone surrogates are not text at all.
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
texts = st.text(characters, min_size=0, max_size=40)
ids = st.text(characters, min_size=1, max_size=12)
labels = st.text(characters, min_size=1, max_size=8).filter(lambda label: label.strip() != "")
tables = st.lists(st.tuples(ids, ids, texts, st.none() | labels), min_size=2, max_size=12)


@pytest.mark.filterwarnings("ignore::saft.InputWarning")
@pytest.mark.parametrize("name", [*FORMATS, "x.csv.gz", "x.jsonl.gz"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables)
def test_any_unicode_survives_every_format(tmp_path, name, table):
    frame = pl.DataFrame(table, schema=dict.fromkeys(["user", "item", "text", "label"], pl.String), orient="row")
    network = saft.read(write(frame, tmp_path / name), labelled=False)
    restored = network.to_frame()
    for column in ("user", "item", "label"):
        assert restored[column].cast(pl.String).to_list() == frame[column].to_list()
    assert restored["text"].to_list() == frame["text"].to_list()


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=st.lists(
        st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 5), st.integers(-3, 3)), min_size=2, max_size=12
    )
)
def test_integer_ids_and_labels_survive_every_format(tmp_path, name, table):
    frame = pl.DataFrame(table, schema=["user", "item", "label"], orient="row").with_columns(text=pl.lit("t"))
    restored = saft.read(write(frame, tmp_path / name), labelled=False).to_frame()
    assert restored.select(frame.columns).equals(frame)
