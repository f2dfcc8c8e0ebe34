"""Every family gives the states of AutoModel; all tokens attend to added tokens, which have no position.

Covers: model.families.
"""

import pytest
import torch
import transformers
from transformers import AutoModel, BertConfig, BertModel

import saft
from saft.model.encoder import TextEncoder
from saft.model.families import FAMILIES, NO_POSITION

SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 60}
CONFIGS = {
    "bert": transformers.BertConfig(**SMALL),
    "roberta": transformers.RobertaConfig(**SMALL, pad_token_id=1),
    "xlm-roberta": transformers.XLMRobertaConfig(**SMALL, pad_token_id=1),
    "electra": transformers.ElectraConfig(**SMALL, embedding_size=16),
    "distilbert": transformers.DistilBertConfig(dim=32, n_layers=3, n_heads=4, hidden_dim=48, vocab_size=60),
    "mpnet": transformers.MPNetConfig(**SMALL),
    "deberta-v2": transformers.DebertaV2Config(
        **SMALL,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        position_buckets=8,
        max_relative_positions=-1,
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        conv_kernel_size=3,
        conv_act="gelu",
        type_vocab_size=0,
    ),
    "modernbert": transformers.ModernBertConfig(
        **SMALL, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2, local_attention=6
    ),
}


@pytest.fixture(params=CONFIGS)
def encoder(request):
    torch.manual_seed(0)
    return AutoModel.from_config(CONFIGS[request.param]).eval()


@pytest.fixture
def text() -> tuple[torch.Tensor, torch.Tensor]:
    """Three texts of 14, 9 and 2 tokens."""
    mask = (torch.arange(14)[None] < torch.tensor([[14], [9], [2]])).long()
    tokens = torch.randint(4, 60, (3, 14), generator=torch.Generator().manual_seed(1))
    return tokens, mask


def pads(encoder, tokens, mask):
    """Padding ids where there is no token, as a tokenizer writes them: RoBERTa and MPNet number positions by them."""
    return tokens.masked_fill(mask == 0, encoder.config.pad_token_id)


def test_every_family_has_its_small_example():
    assert set(CONFIGS) == set(FAMILIES)


def test_text_alone_gives_what_automodel_gives(encoder, text):
    tokens, mask = pads(encoder, *text), text[1]
    with torch.no_grad():
        expected = encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
        opened = TextEncoder(encoder)(tokens, mask)
    torch.testing.assert_close(opened[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=0)


def test_every_token_attends_to_added_tokens_unless_they_are_masked_or_on_a_higher_level(encoder, text):
    tokens, mask = pads(encoder, *text), text[1]
    model = TextEncoder(encoder)
    positions = torch.cat([torch.tensor([NO_POSITION]), torch.arange(14), torch.tensor([NO_POSITION] * 2)])

    def run(added: torch.Tensor, there: int, attention_levels: torch.Tensor | None = None) -> torch.Tensor:
        with torch.no_grad():
            states = model.embed(tokens, mask)
            added = added.expand(3, 3, -1)
            flags = torch.full((3, 3), there)
            for number in range(model.n_layers):
                states = torch.cat([added[:, :1], states, added[:, 1:]], dim=1)
                around = torch.cat([flags[:, :1], mask, flags[:, 1:]], dim=1)
                states = model.run_layer(number, states, around, positions, attention_levels)[:, 1:-2]
            return states[mask.bool()]

    first, other = torch.randn(2, 3, 32, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        alone = model(tokens, mask)[mask.bool()]
    torch.testing.assert_close(run(first, there=0), alone, atol=1e-5, rtol=0)
    assert ((run(first, there=1) - run(other, there=1)).abs().amax(dim=1) > 1e-6).all()
    above = torch.tensor([2] + [0] * 14 + [1] * 2)
    torch.testing.assert_close(run(first, there=1, attention_levels=above), alone, atol=1e-5, rtol=0)


def test_a_token_attends_to_its_own_level_and_those_below(encoder, text):
    tokens, mask = pads(encoder, *text), text[1]
    model = TextEncoder(encoder)
    positions = torch.cat([torch.tensor([NO_POSITION]), torch.arange(14), torch.tensor([NO_POSITION])])
    attention_levels = torch.tensor([2] + [0] * 14 + [1])
    around = torch.nn.functional.pad(mask, (1, 1), value=1)

    def run(top: float, middle: float) -> torch.Tensor:
        states = model.embed(tokens, mask)
        ends = [torch.cos(value * torch.arange(32)).expand(3, 1, -1) for value in (top, middle)]
        return model.run_layer(1, torch.cat([ends[0], states, ends[1]], dim=1), around, positions, attention_levels)

    with torch.no_grad():
        start, other_top, other_middle = run(1, 1), run(2, 1), run(1, 2)
    torch.testing.assert_close(other_top[:, -1], start[:, -1])  # the middle does not attend to the top
    assert ((other_middle[:, 0] - start[:, 0]).abs().amax(dim=1) > 1e-6).all()  # the top attends to the middle
    torch.testing.assert_close(other_middle[:, 1:-1][mask.bool()], start[:, 1:-1][mask.bool()])


def test_computing_the_first_tokens_only_does_not_change_them(encoder, text):
    tokens, mask = pads(encoder, *text), text[1]
    model = TextEncoder(encoder)
    positions = torch.cat([torch.arange(14), torch.tensor([NO_POSITION] * 2)])
    around = torch.nn.functional.pad(mask, (0, 2), value=1)
    with torch.no_grad():
        states = torch.nn.functional.pad(model.embed(tokens, mask), (0, 0, 0, 2), value=0.5)
        for attention_levels in (None, torch.tensor([0] * 14 + [1] * 2)):
            whole = model.run_layer(0, states, around, positions, attention_levels)
            narrowed = model.run_layer(0, states, around, positions, attention_levels, wanted=15)
            assert whole.shape[1] == 16
            torch.testing.assert_close(narrowed, whole[:, :15], atol=1e-6, rtol=0)


@pytest.mark.parametrize("layers", [1, 2])
def test_only_the_first_layers_are_kept_on_request(encoder, text, layers):
    tokens, mask = pads(encoder, *text), text[1]
    with torch.no_grad():
        states = encoder(input_ids=tokens, attention_mask=mask, output_hidden_states=True).hidden_states[layers]
        if encoder.config.model_type == "modernbert":
            states = encoder.final_norm(states)
        model = TextEncoder(encoder, layers)
        opened = model(tokens, mask)
    torch.testing.assert_close(opened[mask.bool()], states[mask.bool()], atol=1e-5, rtol=0)
    assert len(model.family.layers(encoder)) == layers


def test_frozen_layers_belong_to_the_embeddings_without_dropout_or_gradients(encoder, text):
    tokens, mask = pads(encoder, *text), text[1]
    there = mask.bool()
    with torch.no_grad():
        expected = encoder(input_ids=tokens, attention_mask=mask, output_hidden_states=True)
        model = TextEncoder(encoder, trained=2)
        whole = model(tokens, mask)
    torch.testing.assert_close(whole[there], expected.last_hidden_state[there], atol=1e-5, rtol=0)
    assert (model.n_layers, model.frozen) == (2, 1)
    model.train()
    states = model.embed(tokens, mask)
    torch.testing.assert_close(states[there], expected.hidden_states[1][there], atol=1e-5, rtol=0)
    assert not states.requires_grad
    assert model.embed(states, mask) is states
    model(states, mask)[there].sum().backward()
    trained = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert trained
    assert all(".layers.0." not in name and ".layer.0." not in name and "embeddings" not in name for name in trained)


def test_without_a_trained_layer_the_embedding_is_the_output_of_the_whole_encoder(encoder, text):
    tokens, mask = pads(encoder, *text), text[1]
    with torch.no_grad():
        expected = encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
        model = TextEncoder(encoder, trained=0)
        found = model.train().embed(tokens, mask)
    assert (model.n_layers, model.frozen) == (0, 3)
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=0)
    assert not any(weight.requires_grad for weight in model.parameters())
    assert len(model.frozen_parameters()) == len(list(model.parameters()))


@pytest.mark.parametrize(("available", "read"), [(1, 1), (3, 3), (6, 5), (12, 10), (24, 20)])
def test_without_a_trained_layer_the_last_sixth_of_many_is_left_out_unless_layers_are_named(available, read):
    shape = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9}

    def fresh():
        return BertModel(BertConfig(num_hidden_layers=available, **shape))

    untrained = TextEncoder(fresh(), trained=0)
    assert (untrained.frozen, untrained.n_layers) == (read, 0)
    assert untrained.depths[-1] == read
    assert TextEncoder(fresh(), layers=available, trained=0).frozen == available
    assert TextEncoder(fresh(), trained=1).frozen == available - 1
    assert TextEncoder(fresh()).n_layers == available


def test_more_trained_layers_than_there_are_train_all(encoder):
    model = TextEncoder(encoder, trained=9)
    assert (model.n_layers, model.frozen) == (3, 0)
    assert all(weight.requires_grad for weight in model.parameters())
    assert not model.frozen_parameters()


@pytest.mark.parametrize("layers", [2, 3, 6])
def test_minilm_with_its_real_weights_gives_what_automodel_gives(layers):
    from saft.features.backbones import find_backbone

    whole = AutoModel.from_pretrained(find_backbone("minilm")).eval()
    model = TextEncoder.load("minilm", layers).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(find_backbone("minilm"))
    batch = tokenizer(["The kettle broke on the first day.", "Lovely."], padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = whole(**batch, output_hidden_states=True).hidden_states[layers]
        opened = model(batch["input_ids"], batch["attention_mask"])
    real = batch["attention_mask"].bool()
    torch.testing.assert_close(opened[real], expected[real], atol=1e-5, rtol=0)


def test_unknown_families_and_impossible_cuts_are_refused(encoder):
    with pytest.raises(saft.InputError, match="has 3 layers; cannot use the first 9"):
        TextEncoder(encoder, layers=9)
    gpt = AutoModel.from_config(transformers.GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=20))
    with pytest.raises(saft.InputError, match="'gpt2' cannot be opened"):
        TextEncoder(gpt)
