#!/bin/sh
# venv.sh PYTHON VENV REQUIREMENTS: make the virtual environment hold exactly these pinned, hashed packages.
set -eu
python=$1 venv=$2 requirements=$3

say() { echo "nightdesk: $*" >&2; exit 1; }

command -v "$python" >/dev/null 2>&1 || say "$python is missing; install Python 3.11 or newer, or name one: make up PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    say "$("$python" -V 2>&1) is too old; Python 3.11 or newer is needed (make up PYTHON=python3.12 picks another)"

stamp="$venv/.$(basename "$requirements" .txt).$(cksum <"$requirements" | tr ' ' '-')"
[ -e "$stamp" ] && exit 0
# The development set holds the product's, so it also satisfies it.
dev="$venv/.requirements-dev.$(cksum <requirements-dev.txt | tr ' ' '-')"
[ "$requirements" = requirements.txt ] && [ -e "$dev" ] && exit 0

if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        say "$python has no venv module; on Debian or Ubuntu: apt-get install python3-venv"
    echo "Making $venv with $("$python" -V)"
    "$python" -m venv --clear "$venv" || say "$python could not make $venv"
fi
echo "Installing $requirements (once; needs the network or a local package index)"
"$venv/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check --require-hashes -r "$requirements" ||
    say "the packages of $requirements could not be installed; see above"
# pip would compile them on one core. What a package brings for another Python cannot be compiled, nor does it matter.
"$venv/bin/python" -m compileall -qq -j 0 "$venv/lib" || :
rm -f "$venv/.$(basename "$requirements" .txt)".*
: >"$stamp"
