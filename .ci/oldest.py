"""Print the lowest version of each package that procure needs to run, as constraints for pip."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).parent.with_name("pyproject.toml").read_text(encoding="utf-8"))["project"]
for line in (*project["dependencies"], *project["optional-dependencies"]["hpc"]):
    if found := re.match(r"([\w-]+)(?:\[.*?\])?>=([\d.]+)", line):
        print(f"{found[1]}=={found[2]}")
