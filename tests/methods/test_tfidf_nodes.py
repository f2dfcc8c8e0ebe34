"""TF-IDF+NODES against its formula."""

import numpy as np
import torch

import saft
from saft.methods import find
from saft.methods._line_graph import LineGraph
from saft.methods.tfidf_nodes import WordsAndNodes
from saft.settings import Settings


def test_logits_are_one_linear_map_of_words_and_both_vectors_and_unknown_nodes_share_one():
    network = saft.demo_network(300)
    torch.manual_seed(0)
    net = WordsAndNodes(5, network, Settings(node_dim=4)).train(False)
    torch.nn.init.normal_(net.of_words)
    words = torch.rand(300, 5)
    rows = torch.tensor([3, 250, 9])
    graph = LineGraph.of(network)
    unknown = LineGraph(graph.users + network.n_users, graph.items + network.n_items, 10**6, 10**6)
    for given, known in ((graph, True), (unknown, False)):
        logits = net(words.to_sparse(), given, rows)
        for place, e in enumerate(rows.tolist()):
            z_u = net.users.vectors.weight[network.users[e] + 1 if known else 0]
            z_i = net.items.vectors.weight[network.items[e] + 1 if known else 0]
            expected = net.of_words.T @ words[e] + net.of_nodes.weight @ torch.cat([z_u, z_i]) + net.of_nodes.bias
            torch.testing.assert_close(logits[place], expected)


def test_the_words_of_all_interactions_stay_sparse(toy, toy_settings):
    method = find("tfidf_nodes").make(toy_settings)
    method.learn(toy, np.arange(50))
    assert method.features(toy).is_sparse
