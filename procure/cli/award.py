"""``procure award``: the award matrix of a tender."""

from __future__ import annotations

from procure.cli import common, study_options
from procure.recommender.award import award as award_offers


def award(
    path: study_options.StudyArgument,
    settings: study_options.SetOption = None,
    k: study_options.LengthOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Score offers by the weights in the study's \\[award], and say between which weights the winner stays.

    For each vendor, or set of vendors, the first package of the recommendation is scored; or the packages of
    the list. Waits are in seconds.

    Examples:
    procure award pipelines/tender.toml
    procure award pipelines/tender.toml --format json
    """
    study = study_options.load(path, settings)
    found = award_offers(study, k=k, note=common.note)

    def people() -> None:
        common.print_table(found.shown(), output, found.title)
        for line in found.sentences():
            common.echo(line)

    common.tell(output, found.notes, found.to_dict, found.table, people)
