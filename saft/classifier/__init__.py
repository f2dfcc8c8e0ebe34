"""The public class, and what belongs to a trained model: assembly, storage, tuning, evaluation, report."""
