"""What does a vendor's file offer, and at which price? A column is mapped or listed as unread; nothing is guessed."""

from procure.offers.cells import Finding, listed_once
from procure.offers.headings import Line
from procure.offers.read import Offer, read_offer
from procure.offers.reading import OfferReading

__all__ = ["Finding", "Line", "Offer", "OfferReading", "listed_once", "read_offer"]
