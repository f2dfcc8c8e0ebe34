"""Hashes: of files, of numbers, and one seed from several."""

import hashlib
from pathlib import Path

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: multiples of it are spread evenly


def file_digest(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mix_bits(bits: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: neighbouring numbers become unrelated ones."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def uniform(bits: np.ndarray) -> np.ndarray:
    """Numbers in (0, 1) from 64 random bits each."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54


def fixed_keys(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Exp(1) numbers, one per given number, always the same for it."""
    start = np.uint64(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
    return -np.log(uniform(mix_bits(start + numbers.astype(np.uint64) * GOLDEN))).astype(np.float32)


def hash_seed(*numbers: int) -> int:
    """One seed from several, so that neighbouring ones are unrelated."""
    return int(np.random.SeedSequence(list(numbers)).generate_state(1)[0])
