"""From a table of interactions to a network and a split: run it on your own file, or without one on the demo.

python examples/read_your_table.py reviews.csv
"""

import sys

import saft


def main(path: str | None) -> None:
    network = saft.read(path) if path else saft.demo_network()
    print(network.summary())

    split = saft.split(network, "random", seed=0)
    visible = network.hiding(split.test)
    print(f"\n{len(split.train):,} to train on, {len(split.valid):,} to validate, {len(split.test):,} to test on")
    print(f"labels a method can see: {visible.is_labelled.sum():,} of {len(visible):,}")
    print(visible.take(split.test[:3]).to_frame())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
