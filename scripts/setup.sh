#!/usr/bin/env bash
# Installs the outside programs that a task needs, on Debian and its relatives. Says nothing and asks nobody when all
# are there already.
#
#   scripts/setup.sh build|demo|test|bench ...
set -euo pipefail

# program -> package, for each task. "libc" stands for the C library's headers.
packages_for() {
  case "$1" in
  build) [ "${CGO_ENABLED:-1}" = 0 ] || echo gcc:gcc libc:libc6-dev ;;
  demo) echo mariadbd:mariadb-server mariadb-install-db:mariadb-server mariadb:mariadb-client \
    mariadb-backup:mariadb-backup mbstream:mariadb-backup ;;
  test) packages_for demo && echo gzip:gzip zstd:zstd lz4:lz4 age:age ;;
  bench) packages_for test && echo pigz:pigz ;;
  *) echo "setup.sh: unknown task \"$1\"; one of build, demo, test, bench" >&2 && return 64 ;;
  esac
}

# Server programs often stand outside a user's PATH.
present() {
  if [ "$1" = libc ]; then
    echo '#include <stdlib.h>' | gcc -E - >/dev/null 2>&1
  else
    PATH="$PATH:/usr/sbin:/sbin:/usr/local/sbin" command -v "$1" >/dev/null
  fi
}

missing_packages() {
  local task pairs pair
  for task in "$@"; do
    pairs=$(packages_for "$task")
    for pair in $pairs; do
      present "${pair%%:*}" || echo "${pair#*:}"
    done
  done | sort -u
}

# as_root runs a command as root, or explains what the operator has to do.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    echo "setup: these packages are missing: ${missing[*]}" >&2
    echo "setup: run this as root, then try again: apt-get install ${missing[*]}" >&2
    return 1
  fi
}

# quietly shows what a command said only if it fails.
quietly() {
  "$@" >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    return 1
  }
}

# Debian starts a server as soon as its package is installed. Tests bring servers of their own, so nothing of the
# system's may run or claim a port: policy-rc.d is the documented way to say so to every maintainer script.
forbid_services() {
  [ -e /usr/sbin/policy-rc.d ] && return
  as_root sh -c 'printf "#!/bin/sh\nexit 101\n" >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d'
  policy_made=1
}

cleanup() {
  rm -f "$log"
  [ -z "$policy_made" ] || as_root rm -f /usr/sbin/policy-rc.d
}

# A server that only came with our installation must not start at the next boot either.
keep_server_off() {
  [ -d /run/systemd/system ] || return 0
  as_root systemctl disable --quiet --now mariadb.service 2>/dev/null || true
  echo "setup: the system's MariaDB service is left stopped; to use it: systemctl enable --now mariadb"
}

main() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  local task
  for task in "$@"; do packages_for "$task" >/dev/null; done
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    echo "setup: no apt-get here; install what these Debian packages hold, then try again: ${missing[*]}" >&2
    return 1
  fi
  echo "setup: installing ${missing[*]}"
  log=$(mktemp)
  trap cleanup EXIT
  forbid_services
  quietly as_root "${apt[@]}" update
  quietly as_root "${apt[@]}" install --no-install-recommends "${missing[@]}"
  case " ${missing[*]} " in *" mariadb-server "*) keep_server_off ;; esac
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -eq 0 ] || {
    echo "setup: still missing after the installation: ${missing[*]}" >&2
    return 1
  }
}

missing=() log='' policy_made=''
main "${@:-build}"
