"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest

import saft
from saft.features import trees

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded at test time

ROWS = [
    {"user": "ann", "item": "lamp", "text": "bright, and cheap", "label": "good", "time": 1_500_000_000},
    {"user": "bob", "item": "lamp", "text": 'it said "new"', "label": "bad", "time": 1_500_000_100},
    {"user": "ann", "item": "rug", "text": "line one\nline two", "label": None, "time": 1_500_000_200},
    {"user": "ann", "item": "lamp", "text": "bought it again", "label": "good", "time": 1_500_000_300},
]


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """What is kept for later trainings is kept for this run of the tests only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAFT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _few_trees():
    """Most trainings of the tests ask whether trees are handled right, and for that a few of them do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "MOST_ROUNDS", 25)
        patch.setattr(trees, "BAG", 2)
        yield


@pytest.fixture
def rows() -> list[dict]:
    """Four interactions with a comma, quotes, a line break, a missing label and a repeated pair."""
    return [dict(row) for row in ROWS]


@pytest.fixture
def shared_data() -> Path:
    """The real networks beside the checkout, for tests that measure on them."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the real networks are not beside this checkout (../shared/data)")
    return folder


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory) -> str:
    """A folder with a random BERT of 3 layers, 32 wide, and a tokenizer with the demo network's words."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(
        saft.demo_network(600).texts.to_list(), trainers.WordLevelTrainer(special_tokens=special, show_progress=False)
    )
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(folder)
    wrapped.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_settings(tiny_encoder) -> dict:
    """Settings for a model that trains in a second.

    Without validation rows the last epoch is kept. With them it would often be the start: an encoder with random
    weights hardly improves on known labels and n-grams, and at the start neither words nor messages have an effect.
    """
    return {
        "encoder": tiny_encoder,
        "max_length": 24,
        "epochs": 2,
        "least_steps": 0,
        "structure_dim": 8,
        "node_dim": 8,
        "neighbours": 3,
        "learning_rate": 1e-3,
        "valid_share": 0.0,
    }
