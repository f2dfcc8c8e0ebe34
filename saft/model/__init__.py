"""The model: a pretrained encoder opened into its layers, with messages between interactions inside every layer."""
