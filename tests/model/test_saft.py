"""The model against the method written out for one interaction after the other, without chunks or scatter-sums.

Covers: model.base, model.batch, model.readout.
"""

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional

import saft
from saft.data.network import HIDDEN
from saft.features.featurizer import Featurizer
from saft.features.tokens import load_tokenizer
from saft.learning.frozen_layers import FrozenLayers
from saft.learning.loader import BatchLoader
from saft.learning.neighbour_cache import NeighbourCache
from saft.model.base import Sizes, masked_mean
from saft.model.batch import Batch
from saft.model.encoder import TextEncoder
from saft.model.families import NO_POSITION
from saft.model.saft import ADDED, PROXY, TEXT, SaftModel
from saft.settings import AS_PRINTED, TEXT_ONLY, Settings

N = 60
LGA = {"messages": "lga"}


@pytest.fixture(scope="module")
def network():
    return saft.demo_network(200).take(np.arange(N))


def made(network, settings: Settings) -> tuple[SaftModel, Batch]:
    """An untrained model in evaluation mode, with a batch of 7 seed rows."""
    torch.manual_seed(1)
    encoder = TextEncoder.load(settings.encoder, settings.layers or None, settings.trained_layers)
    layers = FrozenLayers(encoder) if encoder.frozen else None
    featurizer = Featurizer(settings, load_tokenizer(settings.encoder), layers.vectors if layers else None)
    features = featurizer.fit_transform(network)
    frozen = layers.states(features.tokens) if layers else None
    loader = BatchLoader(features, network.labels, network.n_classes, settings, frozen=frozen)
    columns = features.user_vectors.shape[1], features.item_vectors.shape[1], loader.n_side_features
    sizes = Sizes(network.n_classes, network.n_users, network.n_items, *columns, loader.learnt_columns)
    model = SaftModel(encoder, settings, sizes).eval()
    for parameter in model.parameters():  # those that start at zero take part too
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    if settings.cache_neighbours and model.message_shape:
        loader.cache = NeighbourCache(torch.randn(N, *model.message_shape).half())
    view = next(loader.prediction_passes(np.arange(7)))
    return model, loader.batch(view.batches[0], view)


def literal(model: SaftModel, batch: Batch) -> torch.Tensor:
    """Logits of the seed rows, formula by formula, with dense P and no padding."""
    s = model.settings
    texts = [tokens[row : row + 1, : mask[row].sum()] for tokens, mask in batch.texts for row in range(len(tokens))]
    states = [model.encoder.embed(tokens, torch.ones(tokens.shape[:2], dtype=torch.long)) for tokens in texts]
    proxies = [t.mean(dim=1) for t in states]
    user_tokens = model.node_tokens["user"](batch.user_nodes)[batch.users]
    item_tokens = model.node_tokens["item"](batch.item_nodes)[batch.items]
    added = [literal_added(model, batch, e, user_tokens[e], item_tokens[e]) for e in range(len(texts))]
    n_side = int(model.n_learnt > 0)
    attention_levels = [ADDED] * (added[0].shape[1] - n_side) + [PROXY] * n_side

    def run(number: int, e: int, extra: torch.Tensor) -> torch.Tensor:
        length = states[e].shape[1]
        whole = torch.cat([proxies[e][:, None], states[e], extra], dim=1)
        positions = torch.tensor([NO_POSITION, *range(length), *[NO_POSITION] * extra.shape[1]])
        levels = (
            torch.tensor([PROXY] + [TEXT] * length + attention_levels[: extra.shape[1]])
            if s.fusion == "residual"
            else None
        )
        return model.encoder.run_layer(number, whole, torch.ones(whole.shape[:2], dtype=torch.long), positions, levels)

    def keep(after: list[torch.Tensor]) -> None:
        for e, states_after in enumerate(after):
            proxies[e], states[e] = states_after[:, 0], states_after[:, 1 : 1 + states[e].shape[1]]

    first = 0 if model.encoder.frozen else 1
    if first:  # nothing has read the text yet
        keep([run(0, e, added[e][:, :0]) for e in range(len(texts))])
    for number in range(model.n_fused):
        before = [torch.cat([p[:, None], t], dim=1).mean(dim=1) for p, t in zip(proxies, states, strict=True)]
        after = [run(first + number, e, added[e]) for e in range(len(texts))]
        keep(after)
        if s.messages == "content":
            continue
        layer = model.layers[number]
        outgoing = [torch.cat([h[:, side - added[0].shape[1]] for h in after]) for side in (0, 1)]
        if s.text_messages:
            outgoing = [own + torch.cat([t.mean(dim=1) for t in states]) for own in outgoing]
        received = literal_messages(model, number, batch, outgoing, (user_tokens, item_tokens))
        for e in range(len(texts)):
            parts = [proxies[e], *(received[side][e : e + 1] for side in layer.messages)]
            if s.fusion == "paper":
                proxies[e] = functional.relu(layer.update(torch.cat(parts, dim=1)))
            else:
                mixed = layer.update(torch.cat([*parts, added[e].flatten(1)], dim=1))
                proxies[e] = proxies[e] + layer.out(functional.gelu(mixed))
    return torch.cat(
        [literal_logits(model, batch, e, proxies[e], states[e], before[e]) for e in batch.seed_rows.tolist()]
    )


def literal_added(model, batch, e, user_token, item_token) -> torch.Tensor:
    """(1, added, width) the tokens beside the text of interaction e."""
    tokens = [user_token, item_token]
    tokens += [model.structure_tokens[role](batch.structure[role][e]) for role in model.structure_tokens]
    if model.n_learnt:
        tokens.append(model.side_token(batch.side_features[e][model.sizes.learnt]))
    return torch.stack(tokens)[None]


def literal_messages(model, number, batch, outgoing, node_tokens) -> dict[str, torch.Tensor]:
    """side → û of every interaction, with the dense P."""
    s, layer, received = model.settings, model.layers[number], {}
    for place, (side, nodes) in enumerate((("user", batch.users), ("item", batch.items))):
        if side not in layer.messages:
            continue
        start = outgoing[place]
        if batch.cached is not None:
            start = torch.cat([start, batch.cached[:, number, place]])
        start = start + s.lam * node_tokens[place]
        if s.labels:
            start = start + model.label_states.weight[batch.labels]
        same = nodes[:, None] == nodes[None]
        if s.fusion == "residual":  # sources are the sample of the node; every interaction receives itself
            same &= batch.is_source[side][None] | torch.eye(len(nodes), dtype=torch.bool)
        dense = same.to(start.dtype) / (same.sum(dim=1, keepdim=True) + 1)
        unit = layer.messages[side]
        state = start
        for _ in range(s.rounds):
            if s.messages == "lga":
                state = dense @ state + s.delta * start
            else:
                gate, shift = functional.silu(unit.gate(start)), functional.silu(unit.shift(start))
                state = unit.mix(gate * (dense @ state + s.delta * shift))
        received[side] = unit.norm(unit.out(state))
    return received


def literal_logits(model, batch, e, proxy, states, before) -> torch.Tensor:
    """Logits of interaction e from its last layer and the mean of the one before."""
    words = states.mean(dim=1)
    if model.settings.readout == "paper":
        representation = (torch.cat([proxy[:, None], states], dim=1).mean(dim=1) + before) / 2
    elif model.settings.readout == "concat":
        representation = torch.cat([proxy, words], dim=1)
    else:
        gate = torch.sigmoid(model.readout.gate(torch.cat([proxy, words], dim=1)))
        representation = gate * proxy + (1 - gate) * words
    if batch.side_features is not None:
        representation = torch.cat([representation, batch.side_features[e : e + 1]], dim=1)
    return model.head(representation)


VARIANTS = {
    "product": {},
    "states of neighbours": LGA,
    "all layers trained": {"trained_layers": 3},
    "all layers trained, states of neighbours": LGA | {"trained_layers": 3},
    "one layer trained": {"trained_layers": 1},
    "as printed, all layers trained": AS_PRINTED | {"trained_layers": 3},
    "as printed, lga": AS_PRINTED,
    "as printed, gau": AS_PRINTED | {"messages": "gau"},
    "gated readout, gau, trained nodes": {"readout": "gated", "messages": "gau", "nodes": "trained"},
    "encoded neighbours": LGA | {"cache_neighbours": False},
    "without words in messages": LGA | {"text_messages": False},
    "words in messages under paper fusion": AS_PRINTED | {"text_messages": True},
    "n-grams without labels": {"labels": False},
    "labels without n-grams": {"ngrams": False},
    "labels alone": {"ngrams": False, "sentences": False, "alike_texts": False, "neighbour_words": False},
    "no side features": {"labels": False, "ngrams": False, "sentences": False},
    "labels under paper fusion": AS_PRINTED | {"labels": True},
    "without user-wise messages": AS_PRINTED | {"user_messages": False},
    "without item-wise messages": LGA | {"item_messages": False},
    "without both": AS_PRINTED | {"user_messages": False, "item_messages": False},
    "without distance": AS_PRINTED | {"distance": "none", "sampling": "centrality"},
    "without centrality": AS_PRINTED | {"centrality": "none"},
    "three rounds, other weights": LGA | {"rounds": 3, "delta": 0.4, "lam": 1.7, "labels": False},
    "other structure": {"distance": "common_neighbours", "centrality": "sketch"},
    "full batch": AS_PRINTED | {"full_batch": True},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_model_is_the_method_written_out(network, tiny_settings, name):
    model, batch = made(network, Settings.of(tiny_settings | VARIANTS[name]))
    with torch.no_grad():
        torch.testing.assert_close(model(batch).logits, literal(model, batch), atol=2e-5, rtol=1e-4)


def test_under_residual_fusion_the_text_is_encoded_exactly_as_by_the_pretrained_encoder(network, tiny_settings):
    model, batch = made(network, Settings.of(tiny_settings))
    with torch.no_grad():
        representation = model(batch).representation
        words = torch.cat([masked_mean(model.encoder(tokens, mask), mask) for tokens, mask in batch.texts])[
            batch.seed_rows
        ]
    torch.testing.assert_close(representation[:, model.encoder.width :], words, atol=1e-5, rtol=0)


def test_a_fresh_residual_model_ignores_its_neighbours_until_it_learns(network, tiny_settings):
    model, batch = made(network, Settings.of(tiny_settings | LGA))
    fresh = SaftModel(model.encoder, model.settings, model.sizes).eval()
    with torch.no_grad():
        start = fresh(batch).logits
        other = fresh(dataclasses.replace(batch, cached=batch.cached + 1)).logits
    torch.testing.assert_close(start, other)


def test_the_message_state_depends_on_nothing_but_the_interaction_itself(network, tiny_settings):
    model, batch = made(network, Settings.of(tiny_settings | LGA))
    changed = dataclasses.replace(
        batch, cached=batch.cached + 1, side_features=batch.side_features + 1, labels=torch.zeros_like(batch.labels)
    )
    with torch.no_grad():
        first, second = model(batch), model(changed)
    torch.testing.assert_close(first.message_state, second.message_state)
    assert (first.logits - second.logits).abs().max() > 1e-4


def test_logits_do_not_depend_on_the_targets(network, tiny_settings):
    model, batch = made(network, Settings.of(tiny_settings))
    with torch.no_grad():
        other = model(dataclasses.replace(batch, targets=torch.full_like(batch.targets, HIDDEN)))
        torch.testing.assert_close(other.logits, model(batch).logits, rtol=0, atol=0)


def test_new_users_and_items_have_the_vector_kept_for_them(network, tiny_settings):
    model, batch = made(network, Settings.of(tiny_settings | {"nodes": "trained", "node_dropout": 1.0}))
    tokens = model.node_tokens["user"]
    new = dataclasses.replace(batch.user_nodes, slots=torch.zeros_like(batch.user_nodes.slots))
    with torch.no_grad():
        torch.testing.assert_close(tokens(new), tokens(new)[:1].expand(len(new), -1))
        tokens.train()  # in training, node dropout replaces known ones by it
        torch.testing.assert_close(tokens(batch.user_nodes), tokens(new))


def test_text_alone_is_the_mean_of_the_encoders_states(network, tiny_settings):
    model, batch = made(network, Settings.of(tiny_settings | TEXT_ONLY))
    with torch.no_grad():
        words = torch.cat([masked_mean(model.encoder(tokens, mask), mask) for tokens, mask in batch.texts])
        torch.testing.assert_close(model(batch).logits, model.head(words[batch.seed_rows]))


def test_fusing_needs_two_layers(network, tiny_settings):
    with pytest.raises(saft.InputError, match="at least 2 layers"):
        made(network, Settings.of(tiny_settings | {"layers": 1}))
