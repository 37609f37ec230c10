"""The report: one HTML file that holds everything, for the mail to the committee and for the printer."""

from procure.reports.purchase import Contents, render

__all__ = ["Contents", "render"]
