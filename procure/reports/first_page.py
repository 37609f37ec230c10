"""The page that a committee reads: how sure, why, what it costs, and what would change it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape


def page(answers: Mapping[str, Sequence[str]]) -> str:
    """Return the first page's questions and their answers as HTML, in the order given; unanswered ones are left out.

    Parameters
    ----------
    answers
        Sentences by question.
    """
    parts = [
        f"<h3>{escape(question)}</h3>\n<p>{' '.join(_sentence(line) for line in lines)}</p>"
        for question, lines in answers.items()
        if lines
    ]
    return f'<div class="first-page">{"".join(parts)}</div>' if parts else ""


def _sentence(line: str) -> str:
    line = line.strip()
    return escape(line[0].upper() + line[1:]) + ("" if line.endswith((".", ":")) else ".")
