"""Hashes: the same for the same input, unrelated for neighbouring ones."""

import hashlib

import numpy as np

from saft.hashing import file_digest, hash_seed, mix_bits, uniform


def test_a_file_has_the_digest_of_its_bytes(tmp_path):
    (tmp_path / "x").write_bytes(b"abc" * 100_000)
    assert file_digest(tmp_path / "x") == hashlib.sha256(b"abc" * 100_000).hexdigest()


def test_mixed_bits_of_neighbouring_numbers_are_uniform_and_unrelated():
    numbers = uniform(mix_bits(np.arange(100_000, dtype=np.uint64)))
    assert 0 < numbers.min() < numbers.max() < 1
    np.testing.assert_allclose(np.histogram(numbers, bins=10, range=(0, 1))[0], 10_000, rtol=0.05)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02


def test_a_seed_depends_on_every_number_and_on_their_order():
    seeds = {hash_seed(a, b) for a in range(20) for b in range(20)}
    assert len(seeds) == 400
    assert hash_seed(3, 4) == hash_seed(3, 4)
