"""Which package should we buy, and how sure is that?"""

from procure.recommender.recommender import Recommendation, recommend
from procure.recommender.values import Criteria, criteria_of
from procure.sweep.results import StudyResults, load_results

__all__ = ["Criteria", "Recommendation", "StudyResults", "criteria_of", "load_results", "recommend"]
