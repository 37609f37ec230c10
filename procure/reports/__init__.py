"""What does the committee read? One HTML file that holds everything, for the mail and for the printer."""

from procure.reports.purchase import Report, report

__all__ = ["Report", "report"]
