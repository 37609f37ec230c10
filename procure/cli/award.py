"""``procure award``: the award matrix of a tender."""

from __future__ import annotations

from procure.cli import common, study_options
from procure.recommender.award import AwardMatrix
from procure.recommender.award import award as award_offers


def award(
    study: study_options.StudyArgument,
    k: study_options.LengthOption = None,
    verify: study_options.VerifyOption = True,
    workload: study_options.WorkloadOption = None,
    policy: study_options.PolicyOption = None,
    output: common.FormatOption = common.Format.TABLE,
) -> None:
    """Score offers by the weights in the study's \\[award], and say between which weights the winner stays.

    For each vendor, or set of vendors, the first package of the recommendation is scored; or the packages of
    the list. Waits are in seconds.

    Examples:
    procure award pipelines/tender.toml
    procure award pipelines/tender.toml --format json
    """
    found = award_offers(study, k=k, verify=verify, workload=workload, policy=policy, note=common.note)
    common.tell(output, found.notes, found.to_dict, found.table, lambda: _print(found))


def _print(found: AwardMatrix) -> None:
    common.print_table(found.shown(), common.Format.TABLE, found.title)
    for line in found.sentences():
        common.echo(line)
