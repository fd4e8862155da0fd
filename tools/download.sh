# Messages and downloads of the scripts that fetch data; sourced by them.

say() { echo "${0##*/}: $*" >&2; }
die() { say "$*"; exit 1; }

can_download() { command -v curl >/dev/null || command -v wget >/dev/null; }

get() {  # URL FILE: gives up on a mirror that does not answer or stalls
  if command -v curl >/dev/null; then
    curl -fsSL --connect-timeout 5 --speed-limit 1000 --speed-time 15 -o "$2" "$1" >&2
  else
    wget -q --timeout=10 --tries=1 -O "$2" "$1" >&2
  fi
}
