"""Why do jobs wait as long as they do on a package? The model's factors, the bottleneck, one more node."""

from procure.explanation.package import Explanation, explain

__all__ = ["Explanation", "explain"]
