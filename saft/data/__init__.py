"""Tables → :class:`~saft.data.network.TextualInteractionNetwork`; splits, summary, and the demo marketplace."""
