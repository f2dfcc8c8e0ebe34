"""Bad input gets an error that names the file, the column, the rows and the remedy; nothing is dropped silently.

Covers: errors, data.columns, data.diagnosis.
"""

import gzip
import re

import polars as pl
import pytest

import saft

GOOD = "user,item,text,label\n" + "".join(f"u{n},i{n % 3},fine {n},{n % 2}\n" for n in range(20))


def refusal(source, **settings) -> str:
    with pytest.raises(saft.InputError) as caught:
        saft.read(source, **settings)
    return str(caught.value)


@pytest.fixture
def file(tmp_path):
    def write(content: str | bytes, name: str = "reviews.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_a_missing_column_is_named_with_the_nearest_one(file):
    message = refusal(file("usr,item,text,label\na,b,c,1\nd,e,f,2\n"))
    assert "reviews.csv: no column looks like the user" in message
    assert "The nearest is 'usr'" in message
    assert "user='usr'" in message
    assert "--user usr" in message


def test_a_given_name_that_does_not_exist_is_refused_with_the_nearest_one(file):
    message = refusal(file(GOOD), text="txet")
    assert "there is no column 'txet' to take the text from. Did you mean 'text'?" in message


def test_a_column_cannot_serve_twice(file):
    message = refusal(file(GOOD), user="item")
    assert "no column looks like the item" in message
    assert "nearest" not in message


def test_a_missing_label_column_is_an_error_unless_rows_are_to_be_predicted(file):
    path = file("user,item,text\na,b,c\n")
    assert "no column looks like the label" in refusal(path)
    assert len(saft.read(path, labelled=False)) == 1


def test_null_ids_are_counted_and_the_first_rows_named(file):
    lines = GOOD.splitlines()
    for row in (2, 5, 7, 8, 9, 11, 13):
        lines[row] = "," + lines[row].partition(",")[2]
    message = refusal(file("\n".join(lines)))
    assert "reviews.csv: column 'user' is empty in 7 rows (2, 5, 7, 8, 9, …)" in message
    assert "remove these rows" in message


def test_an_id_of_no_characters_is_a_null_id():
    rows = [{"user": "a", "item": "", "text": "x", "label": 1}, {"user": "a", "item": "b", "text": "x", "label": 2}]
    assert "the given list: column 'item' is empty in row 1" in refusal(rows)


def test_rows_are_counted_inside_their_own_file(file, tmp_path):
    file(GOOD, "a.csv")
    file("user,item,text,label\nu,i,t,1\n,i,t,1\n", "b.csv")
    message = refusal(str(tmp_path / "*.csv"))
    assert re.search(r"b\.csv: column 'user' is empty in row 2\b", message)


def test_nothing_labelled_is_an_error_that_says_how_to_go_on(file):
    message = refusal(file("user,item,text,label\na,b,c,\nd,e,f,\n"))
    assert "reviews.csv: nothing is labelled: column 'label' is empty in all 2 rows" in message
    assert "labelled=False" in message


def test_one_class_only_is_an_error(file):
    message = refusal(file("user,item,text,label\na,b,c,spam\nd,e,f,spam\ng,h,i,\n"))
    assert "one class only: every label in column 'label' is 'spam' (2 of 3 rows are labelled)" in message


@pytest.mark.parametrize("name", ["reviews.csv", "reviews.tsv"])
def test_unreadable_bytes_in_a_table_are_located(file, name):
    separator = "\t" if name.endswith("tsv") else ","
    content = GOOD.replace(",", separator).encode().replace(b"fine 7", b"caf\xe9").replace(b"fine 9", b"caf\xe9")
    message = refusal(file(content, name))
    assert f"{name}: 2 rows (8, 10) (column 'text') cannot be read as UTF-8" in message
    assert "encoding='latin-1'" in message


def test_unreadable_bytes_in_json_lines_are_located(file):
    good = b'{"user": "a", "item": "b", "text": "c", "label": 1}\n'
    message = refusal(file(good + good.replace(b'"c"', b'"caf\xe9"') + good, "reviews.jsonl"))
    assert "reviews.jsonl: line 2 cannot be read as UTF-8" in message


def test_unreadable_bytes_in_edgeformers_lines_are_located(file):
    assert "line 2 cannot be read as UTF-8" in refusal(file(b"ok$$1$$2$$0\ncaf\xe9$$1$$2$$1\n", "train.tsv"))


@pytest.mark.parametrize("name", ["reviews.csv.gz", "reviews.tsv.gz", "reviews.jsonl.gz", "reviews.parquet.gz"])
def test_a_truncated_gzip_file_is_refused_whole(file, name):
    message = refusal(file(gzip.compress(GOOD.encode() * 50)[:-20], name))
    assert f"{name}: the gzip file ends too early" in message
    assert "download it again" in message


def test_a_damaged_gzip_file_is_refused(file):
    data = bytearray(gzip.compress(GOOD.encode() * 50))
    data[len(data) // 2] ^= 0xFF
    assert "the gzip file is damaged" in refusal(file(bytes(data), "reviews.csv.gz"))


def test_a_truncated_zstd_file_is_refused(tmp_path):
    path = tmp_path / "reviews.csv.zst"
    pl.DataFrame({"user": ["a"] * 999, "text": ["b"] * 999}).lazy().sink_csv(path, compression="zstd")
    path.write_bytes(path.read_bytes()[:-5])
    assert "reviews.csv.zst cannot be read" in refusal(path)


def test_a_quoted_field_that_never_closes_is_located(file):
    message = refusal(file(GOOD.replace("fine 6,", '"fine 6,')))
    assert "reviews.csv, row 7 (line 8): a quoted field in column 'text' never closes" in message


def test_rows_and_lines_are_told_apart_from_the_first_row_on(file):
    assert "row 1 (line 2): a quoted field in column 'text'" in refusal(file('user,item,text,label\nu,i,"oh,1\n'))
    message = refusal(file('user,item,text,label\nu,i,"two\nlines",1\nu,i,"oh,1\n'))
    assert "row 2 (line 4): a quoted field in column 'text'" in message


def test_a_quoted_field_that_never_closes_is_located_although_later_fields_are_quoted(file):
    quoted = "".join(f'u{n},i,"well, {n}",1\n' for n in range(5))
    message = refusal(file('user,item,text,label\nu,i,t,0\nu,i,"never,1\n' + quoted))
    assert "row 2 (line 3): a quoted field in column 'text' never closes" in message


def test_a_stray_quotation_mark_inside_an_unquoted_text_is_read_as_it_stands(file):
    network = saft.read(file(GOOD.replace("fine 6", 'a 5" pipe')))
    assert network.texts[6] == 'a 5" pipe'
    assert len(network) == 20


def test_rows_with_too_many_fields_are_located(file):
    message = refusal(file(GOOD.replace("fine 6", "well, fine 6")))
    assert "row 7 with more fields than the header's 4 columns (the first has 5)" in message


def test_broken_json_lines_are_located(file):
    good = '{"user": "a", "item": "b", "text": "c", "label": 1}\n'
    message = refusal(file(good + '{"user": \n' + good + "[1]\n", "reviews.jsonl"))
    assert "reviews.jsonl: 2 lines (2, 4) cannot be read as JSON" in message


def test_broken_edgeformers_lines_are_located(file):
    assert "line 2 not of the form text$$user$$item$$label" in refusal(file("a$$1$$2$$0\nb$$1\n", "train.tsv"))


def test_an_attribute_named_by_two_tables_is_refused(rows):
    table = [{"user": "ann", "age": 1}, {"user": "bob", "age": 2}]
    aged = [row | {"age": 30} for row in rows]
    assert "'age' of users comes from two tables" in refusal(aged, user_attributes=["age"], user_table=table)


def test_a_column_named_twice_is_refused_also_beside_a_stray_quotation_mark(file):
    assert "names the column 'user' twice" in refusal(file('user,user,item,text,label\na,b,c,5" x,1\n'))


def test_a_file_of_nothing_but_a_byte_order_mark_is_refused(file):
    assert "reviews.csv" in refusal(file(b"\xef\xbb\xbf"))


def test_a_column_named_twice_is_refused(file):
    assert "names the column 'user' twice" in refusal(file("user,user,item,text,label\na,b,c,d,1\n"))


def test_empty_files_and_files_without_rows_are_refused(file):
    assert "is empty" in refusal(file(""))
    assert "holds no interactions" in refusal(file("user,item,text,label\n"))
    assert "holds no interactions" in refusal(file("user,item,text,label\n\n\n"))


def test_blank_lines_at_the_end_of_a_file_are_not_rows(file):
    assert len(saft.read(file(GOOD + "\n\n"))) == 20


def test_files_that_are_not_there_are_refused_with_the_nearest_name(file, tmp_path):
    file(GOOD)
    assert "Did you mean 'reviews.csv'?" in refusal(tmp_path / "reviws.csv")
    assert "No file matches" in refusal(str(tmp_path / "*.parquet"))
    assert "is a folder" in refusal(tmp_path)


def test_unknown_endings_and_false_parquet_files_are_refused(file):
    assert "Known endings are .csv" in refusal(file(GOOD, "reviews.xlsx"))
    assert "is not a readable Parquet file" in refusal(file(GOOD, "reviews.parquet"))


def test_unreadable_times_are_an_error_if_the_column_was_given_and_a_note_if_it_was_guessed(file):
    content = "user,item,text,label,date\na,b,c,1,2020-01-01\nd,e,f,2,soon\n"
    assert "column 'date' has no readable time in row 2, e.g. 'soon'" in refusal(file(content), time="date")
    with pytest.warns(saft.InputWarning, match="the column is not used as time"):
        assert saft.read(file(content)).times is None


def test_ids_and_labels_of_impossible_types_are_refused():
    row = {"user": "a", "item": "b", "text": "c", "label": 1}
    assert "ids have to be text or whole numbers" in refusal([row | {"user": 1.5}])
    assert "labels have to be text or numbers" in refusal([row | {"label": [1, 2]}])
    assert "not texts" in refusal([row | {"text": ["c"]}])


def test_side_tables_with_two_rows_for_one_user_are_refused(rows):
    assert "names the same user in 2 rows (1, 2)" in refusal(rows, user_table=[{"user": "ann"}, {"user": "ann"}])


def test_unknown_settings_are_refused_with_the_nearest_one(rows):
    assert "Did you mean 'label'?" in refusal(rows, lable="label")


def test_empty_frames_and_lists_are_refused():
    assert "the given list is empty" in refusal([])
    assert "the given frame is empty" in refusal(pl.DataFrame({"user": [], "item": [], "text": [], "label": []}))


def test_unknown_sources_are_refused():
    assert "Cannot read interactions from int" in refusal(7)


def test_unknown_attribute_columns_are_refused_with_the_nearest_one(rows):
    assert "Did you mean 'time'?" in refusal(rows, user_attributes=["tiem"])


def test_encodings_that_do_not_exist_or_do_not_fit_are_refused(file):
    assert "is not an encoding" in refusal(file(GOOD), encoding="latin-99")
    assert "line 2: the bytes there are not ascii" in refusal(file("user,item,text,label\nü,b,c,1\n"), encoding="ascii")
