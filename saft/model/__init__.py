"""The model: a pretrained encoder run layer by layer, with messages between interactions inside every layer."""
