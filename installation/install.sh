#!/bin/sh
# Install procure from the wheels beside this script into a new environment, without a network: ./install.sh DIR
# PYTHON names the interpreter. Nothing is written but DIR.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
fail() { echo "install.sh: $*" >&2; exit 1; }
[ $# -eq 1 ] || { echo "usage: ./install.sh DIR" >&2; exit 2; }
[ ! -e "$1" ] || fail "$1 is there already; name a folder that is not"
wanted=$(cat "$here/python")
python=${PYTHON:-python$wanted}
command -v "$python" >/dev/null 2>&1 || fail "$python is not here; name a Python $wanted with PYTHON"
found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$python does not run"
[ "$found" = "$wanted" ] || fail "$python is Python $found; these wheels are for $wanted"
(cd "$here" && sha256sum --check --quiet --strict SHA256SUMS) || fail "a wheel is damaged or missing; copy the folder again"
"$python" -m venv "$1" || fail "$python cannot make an environment; Debian has that in the package python3-venv"
extras=$(cat "$here/extras")
if ! said=$("$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links "$here/wheels" \
    "procure-hpc${extras:+[$extras]}" 2>&1); then
    rm -rf -- "$1"
    fail "pip could not install: $(printf '%s\n' "$said" | grep -m 1 ERROR || printf '%s\n' "$said" | tail -n 1)"
fi
"$1/bin/procure" doctor >/dev/null || fail "it is installed, and procure doctor says what is wrong"
echo "$("$1/bin/procure" --version) is in $1; $1/bin/procure doctor --warm compiles every policy now"
