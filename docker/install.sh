#!/bin/sh
# Installs the gateway as the images do, in steps from what changes seldom to what changes often:
#
#   install.sh dependencies VARIANT   what pyproject.toml asks for, in a new environment
#   install.sh gateway                the gateway itself, from the working directory
#   install.sh weights VARIANT        what the variant has inside
#
# VARIANT: quality, embedded or cuda. PREFIX: the environment's folder. DUPLEX_GATEWAY_HOME: the weights'.
# Runs in a checkout (in the images: what .dockerignore lets through of one); wants uv and python3.
set -eu

prefix=${PREFIX:-/opt/duplex-gateway}
scripts=$(dirname "$0")

fail() {
  echo "install.sh: $1" >&2
  exit 2
}

install() {
  uv pip install --quiet --python "$prefix/bin/python" "$@"
}

dependencies() {
  uv venv --quiet --python "$(command -v python3)" "$prefix"
  case $1 in
    embedded) install -r pyproject.toml ;;
    quality) install -r pyproject.toml --extra onnx-asr ;;
    cuda) install -r pyproject.toml --extra onnx-asr -r "$scripts/cuda.txt" --overrides "$scripts/cuda-overrides.txt" ;;
    *) fail "there is no variant '$1': give quality, embedded or cuda." ;;
  esac
}

weights() {
  mkdir -p "$DUPLEX_GATEWAY_HOME"
  case $1 in
    embedded) "$prefix/bin/duplex-gateway" warmup --profile embedded ;;
    quality | cuda) ;; # fetched at the first start, into the volume
    *) fail "there is no variant '$1': give quality, embedded or cuda." ;;
  esac
}

case ${1:-} in
  dependencies | weights) "$1" "${2:-}" ;;
  gateway) install --no-deps . ;;
  *) fail "there is no step '${1:-}': give dependencies, gateway or weights." ;;
esac
