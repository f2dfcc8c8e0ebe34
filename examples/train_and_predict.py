"""Train on a table, look at what the model says of the rows without a label, and keep it.

python examples/train_and_predict.py reviews.csv
"""

import sys
from pathlib import Path

import polars as pl

import saft

# Without a table of your own: the embedded marketplace, with every tenth label missing.
if len(sys.argv) > 1:
    network = saft.read(sys.argv[1])
else:
    network = saft.demo_network(600)
    network = network.hiding(range(0, len(network), 10))

# A quick model; leave the settings out for all layers and more epochs.
model = saft.SaftClassifier(layers=2, max_length=32, epochs=2).fit(network)
print(model.report())

# Rows without a label; if all have one, pretend that somebody new writes about the first item.
rows = network.unlabelled()
if not len(rows):
    rows = saft.read(
        [{"user": "somebody new", "item": network.item_ids[0], "text": "It broke at once."}], labelled=False
    )
table = model.predict(rows)
with pl.Config(tbl_cols=-1, fmt_str_lengths=40):
    print(table.select("prediction", pl.col("^probability_.*$")).head())

model.save(Path("example-model"))
print("Saved to example-model; load it with saft.load('example-model').")
