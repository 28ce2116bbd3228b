#!/bin/sh
# Starts the gateway in a container: reads secrets that are mounted as files, then becomes `duplex-gateway "$@"`, which
# gets the signals.
#
# A setting that is a secret may come as NAME_FILE, the path of a file with it, as Docker's and Kubernetes' secrets do.
# The keys of named Realtime servers have whatever names were given to these.
set -eu

for name in DUPLEX_GATEWAY_API_KEY DUPLEX_GATEWAY_SIGNING_SECRET ASR_API_KEY TTS_API_KEY DUPLEX_API_KEY FOREGROUND_API_KEY \
  $(env | sed -n 's/^\(REMOTE_[A-Z0-9_]*_API_KEY\)_FILE=.*$/\1/p'); do
  eval "file=\${${name}_FILE:-}"
  [ -n "$file" ] || continue
  if [ ! -f "$file" ] || [ ! -r "$file" ]; then
    echo "start.sh: ${name}_FILE names no file that user $(id -u) can read ($file): mount the secret there." >&2
    exit 2
  fi
  value=$(cat "$file")
  export "$name=$value"
done

exec "${PREFIX:-/opt/duplex-gateway}/bin/duplex-gateway" "$@"
