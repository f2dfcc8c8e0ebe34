"""Vectors of users and items: from the hash of an id, and from attributes."""

from datetime import date

import numpy as np
import polars as pl

from saft.features.nodes import Attributes, gaussian_vectors

TABLE = pl.DataFrame(
    {
        "age": [20.0, 40.0, None, 60.0],
        "town": ["ulm", "bonn", "ulm", None],
        "member": [True, False, True, None],
        "since": [date(2020, 1, 1), None, date(2020, 1, 3), date(2020, 1, 2)],
        "empty": pl.Series([None] * 4, dtype=pl.String),
    }
)


def test_a_vector_depends_on_seed_and_id_alone():
    ids = pl.Series(["ann", "bob", "7"])
    vectors = gaussian_vectors(ids, 16, seed=3)
    np.testing.assert_array_equal(gaussian_vectors(pl.Series(["bob", "new"]), 16, 3)[0], vectors[1])
    np.testing.assert_array_equal(gaussian_vectors(pl.Series([7]), 16, 3)[0], vectors[2])  # ids are text
    assert (gaussian_vectors(ids, 16, 4) != vectors).all()
    np.testing.assert_array_equal(gaussian_vectors(ids, 4, 3), vectors[:, :4])


def test_vectors_are_standard_normal_and_unrelated():
    vectors = gaussian_vectors(pl.Series(range(20_000)), 8, seed=0).astype(np.float64)
    np.testing.assert_allclose(vectors.mean(axis=0), 0, atol=0.03)
    np.testing.assert_allclose(np.cov(vectors.T), np.eye(8), atol=0.04)
    assert np.abs(np.corrcoef(vectors[:-1, 0], vectors[1:, 0])[0, 1]) < 0.03
    assert 2.5 < (vectors**4).mean() < 3.5


def test_attributes_become_standardised_numbers_and_a_column_per_value():
    fitted = Attributes.fit(TABLE)
    numbers = fitted.transform(TABLE, 4)
    assert numbers.shape == (4, fitted.width)
    np.testing.assert_allclose(numbers[:, 0], [-1, 0, 0, 1], atol=1e-6)  # mean 40, spread 20; missing is the mean
    np.testing.assert_array_equal(numbers[:, 1], [0, 0, 1, 0])  # and says so
    np.testing.assert_array_equal(numbers[:, 2:5], [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]])  # ulm, bonn, missing
    assert np.isfinite(numbers).all()


def test_attributes_survive_json_and_tables_with_other_columns():
    fitted = Attributes.fit(TABLE)
    again = Attributes.from_json(fitted.to_json())
    np.testing.assert_array_equal(again.transform(TABLE, 4), fitted.transform(TABLE, 4))
    other = pl.DataFrame({"town": ["bonn", "paris"], "shoe": [1, 2]})
    numbers = again.transform(other, 2)
    assert numbers.shape == (2, fitted.width)
    np.testing.assert_array_equal(numbers[:, 2:5], [[0, 1, 0], [0, 0, 0]])  # a value never seen has no column
    np.testing.assert_array_equal(again.transform(None, 3)[:, 1], [1, 1, 1])


def test_numbers_are_clipped_to_the_range_of_training():
    fitted = Attributes.fit(TABLE.select("age"))
    ages = pl.DataFrame({"age": [1e308, -1e308, 1000.0, 60.0, 20.0, float("inf"), float("nan")]})
    numbers = fitted.transform(ages, 7)
    np.testing.assert_allclose(numbers[:, 0], [1, -1, 1, 1, -1, 0, 0], atol=1e-6)  # mean 40, spread 20
    np.testing.assert_array_equal(numbers[:, 1], [0, 0, 0, 0, 0, 1, 1])  # infinite ones are missing


def test_columns_of_models_that_know_no_range_are_clipped_at_ten_standard_deviations():
    column = Attributes.fit(TABLE.select("age")).to_json()[0]
    old = Attributes.from_json([{key: value for key, value in column.items() if key not in ("least", "most")}])
    numbers = old.transform(pl.DataFrame({"age": [1e308, -1e308, 80.0]}), 3)
    np.testing.assert_allclose(numbers[:, 0], [10, -10, 2], atol=1e-6)


def test_training_on_numbers_whose_squares_overflow_gives_finite_ones():
    frame = pl.DataFrame({"age": [1e308, -1e308, 1e200, 3.0, float("inf")]})
    assert np.isfinite(Attributes.fit(frame).transform(frame, 5)).all()
