"""What a model reads: tokens, encoder weights, n-grams, known labels, node vectors; put together by the featurizer."""
