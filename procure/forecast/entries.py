"""What this room adds to the catalog."""

from procure.policies.entries import Entry

FORECAST = Entry(
    "procure.forecast.policies:Forecast", "easy, with nodes held for jobs that are expected", True, True
)
