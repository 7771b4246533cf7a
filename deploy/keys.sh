#!/bin/sh
# Makes the secrets of the compose file in the volume /secrets, once, and the
# configuration of leasesvc with the public key of the demo in it, at each start.
# A key that is there is never replaced: what it sealed could not be opened again.
#
# It needs nk, of NATS's nkeys. SECRETS and FROM name other directories.
set -eu
umask 077
secrets=${SECRETS:-/secrets}
from=${FROM:-/deploy}
service=65532    # the user of leasesvc and the demo (Dockerfile)
prometheus=65534 # the user of Prometheus's image

# own USER FILE gives a file to a user, where we may.
own() { [ "$(id -u)" != 0 ] || chown "$1" "$2"; }

# make NAME COMMAND... writes what a command prints to a file, whole or not at all.
make() {
  name=$1
  shift
  [ ! -s "$secrets/$name" ] || return 0
  "$@" >"$secrets/.$name"
  own "$service" "$secrets/.$name"
  mv "$secrets/.$name" "$secrets/$name"
}

# A letter first: the configuration of NATS takes digits for a number.
random() { printf 'p%s' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"; }

make nats-password random
make http-token random
make seal.key nk -gen curve
make demo.nk nk -gen user
# What the demo pins, to know the service by.
make service-key nk -inkey "$secrets/seal.key" -pubout

cat "$secrets/http-token" >"$secrets/.prometheus-token"
own "$prometheus" "$secrets/.prometheus-token"
mv "$secrets/.prometheus-token" "$secrets/prometheus-token"

# The definitions file names its consumer by an example of a key.
demo=$(nk -inkey "$secrets/demo.nk" -pubout)
mkdir -p "$secrets/leasesvc"
sed "s/U[A-Z2-7]\{55\}/$demo/" "$from/leasesvc/definitions.yaml" >"$secrets/leasesvc/.definitions.yaml"
cp "$from/leasesvc/leasesvc.yaml" "$secrets/leasesvc/.leasesvc.yaml"
for file in definitions.yaml leasesvc.yaml; do
  own "$service" "$secrets/leasesvc/.$file"
  mv "$secrets/leasesvc/.$file" "$secrets/leasesvc/$file"
done
chmod 0711 "$secrets" "$secrets/leasesvc"
