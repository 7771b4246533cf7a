#!/bin/sh
# Makes, once, the secrets of the compose file in the volume /secrets: the
# password of NATS and the key that seals credentials at rest. Both instances of
# leasesvc use the same ones. A key that is there is never replaced: what it
# sealed could not be opened again.
set -eu
umask 077
service=65532 # the user that leasesvc runs as (Dockerfile)

if [ ! -s /secrets/nats-password ]; then
  # A letter first: the configuration of NATS takes digits for a number.
  printf 'p%s' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" >/secrets/.nats-password
  chown "$service" /secrets/.nats-password
  mv /secrets/.nats-password /secrets/nats-password
fi
if [ ! -s /secrets/seal.key ]; then
  nk -gen curve >/secrets/.seal.key
  chown "$service" /secrets/.seal.key
  mv /secrets/.seal.key /secrets/seal.key
fi
chmod 0711 /secrets
