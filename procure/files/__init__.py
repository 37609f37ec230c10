"""How are files read and written, so that none is half, misread, or larger than it seems?"""

from procure.files.archive import (
    Archive,
    installed_xgboost,
    keep,
    keep_array,
    load_booster,
    read_archive,
    write_archive,
)
from procure.files.caches import code_digest
from procure.files.read import (
    as_utf8,
    check_parquet,
    damage_of,
    existing_file,
    from_json,
    is_file,
    is_parquet,
    read_bytes,
    read_rows,
)
from procure.files.write import whole_file

__all__ = [
    "Archive", "as_utf8", "check_parquet", "code_digest", "damage_of", "existing_file", "from_json",
    "installed_xgboost", "is_file", "is_parquet", "keep", "keep_array", "load_booster", "read_archive",
    "read_bytes", "read_rows", "whole_file", "write_archive",
]  # fmt: skip
