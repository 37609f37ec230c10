"""Which package should we buy, and how sure is that?"""

from procure.recommender.recommender import Recommendation, recommend

__all__ = ["Recommendation", "recommend"]
