"""Make procure/workload/spec_rates.csv: the median SPECrate 2017 integer base rate of one core, by processor.

    python benchmarks/processor_rates.py RESULTS.parquet

RESULTS holds one published result per row (``benchmark processor cores chips base hw_avail result_id``, as listed on
https://www.spec.org/cpu2017/results/). Two-chip results count where a processor has any, else those of the fewest
chips. ``result_id`` is the published result nearest to the median. SPEC and SPECrate are trademarks of the Standard
Performance Evaluation Corporation.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

OUT = Path(__file__).parent.parent / "procure" / "workload" / "spec_rates.csv"


def medians(results: pd.DataFrame) -> pd.DataFrame:
    """Give per processor the median base rate of one core, of how many results, the nearest result, and its cores."""
    rows = []
    integer = results[(results["benchmark"] == "CINT2017rate") & (results["base"] > 0)]
    for processor, published in integer.groupby("processor"):
        chips = 2 if (published["chips"] == 2).any() else published["chips"].min()
        counted = published[published["chips"] == chips]
        per_core = counted["base"] / counted["cores"]
        rate = per_core.median()
        by_distance = (per_core - rate).abs().sort_values(kind="stable")
        rows.append(
            {
                "processor": processor,
                "spec_rate": round(rate, 3),
                "n_results": len(counted),
                "chips": chips,
                "result_id": counted.loc[by_distance.index[0], "result_id"],
                "cores": int((published["cores"] / published["chips"]).mode().max()),
            }
        )
    return pd.DataFrame(rows).sort_values("processor", ignore_index=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    options = parser.parse_args()
    medians(pd.read_parquet(options.results)).to_csv(OUT, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
