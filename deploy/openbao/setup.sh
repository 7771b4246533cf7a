#!/bin/sh
# Sets OpenBao up for the compose file: a database role that makes PostgreSQL
# accounts, the token role that guards are made from, and the service's token.
# The service's rights are the least that leasesvc needs; copy them from here.
set -eu

until bao status >/dev/null 2>&1; do sleep 0.2; done

bao secrets list | grep -q '^database/' || bao secrets enable database
bao write database/config/orders \
  plugin_name=postgresql-database-plugin allowed_roles=orders \
  connection_url='postgresql://{{username}}:{{password}}@postgres:5432/orders?sslmode=disable' \
  username=postgres password="$POSTGRES_PASSWORD"
bao write database/roles/orders db_name=orders default_ttl=60s max_ttl=3m \
  creation_statements="CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'; GRANT orders_reader TO \"{{name}}\";"

# A guard may read credentials, and nothing more. Its role has no period, no
# explicit max TTL and no use limit: with one, a guard could not be extended.
bao policy write leasesvc-guard - <<'POLICY'
path "database/creds/orders" { capabilities = ["read"] }
POLICY
bao write auth/token/roles/leasesvc allowed_policies=leasesvc-guard orphan=true renewable=true

bao policy write leasesvc - <<'POLICY'
path "auth/token/create/leasesvc"   { capabilities = ["update"] }
path "auth/token/lookup-accessor"   { capabilities = ["update"] }
path "auth/token/renew-accessor"    { capabilities = ["update"] }
path "auth/token/revoke-accessor"   { capabilities = ["update"] }
path "auth/token/lookup-self"       { capabilities = ["read"] }
path "auth/token/renew-self"        { capabilities = ["update"] }
path "sys/leases/lookup"            { capabilities = ["update"] }
path "sys/leases/renew"             { capabilities = ["update"] }
path "sys/leases/revoke"            { capabilities = ["update"] }
POLICY

umask 077
bao token create -field=token -orphan -period=1h -policy=leasesvc >/secrets/.vault-token
chown 65532 /secrets/.vault-token
mv /secrets/.vault-token /secrets/vault-token
