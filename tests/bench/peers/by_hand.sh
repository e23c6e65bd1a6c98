#!/bin/bash
# What a careful person would type to get the same server, in one go: packages, files, services.
# Usage: by_hand.sh STATE_TAR PACKAGE...   (as root, on the node)
set -euo pipefail
tarball=$1
shift
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q -y install --no-install-recommends "$@"
tar -x -f "$tarball" -C / --no-same-owner --overwrite
update-ca-certificates
systemd-tmpfiles --create >/dev/null 2>&1 || true
sysctl -q --system || true
systemctl daemon-reload
systemctl restart systemd-journald
sshd -t
systemctl reload ssh
systemctl enable --now gpuferry-firewall.service
systemctl enable docker
systemctl restart docker
docker info >/dev/null
