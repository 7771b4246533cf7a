#!/bin/sh
# Sets OpenBao up for the compose file: roles that make accounts in PostgreSQL,
# RabbitMQ and Redis, the token role that guards are made from, and the service's
# token. With Vault: `vault` for `bao`, and redis-database-plugin for the valkey one.
#
# Each setting comes from the environment, and is the compose file's without it.
set -eu
secrets=${SECRETS:-/secrets}
: "${POSTGRES_ADDRESS:=postgres:5432}" "${POSTGRES_USER:=postgres}"
: "${RABBITMQ_URL:=http://rabbitmq:15672}" "${RABBITMQ_USER:=admin}" "${RABBITMQ_VHOST:=orders}"
: "${REDIS_HOST:=redis}" "${REDIS_PORT:=6379}" "${REDIS_USER:=default}"
: "${TTL:=60s}" "${MAX_TTL:=3m}"

tries=0
until bao status >/dev/null 2>&1; do
  tries=$((tries + 1))
  [ "$tries" -lt 300 ] || { echo "setup.sh: OpenBao at ${BAO_ADDR:-its address} is not ready after a minute" >&2; exit 1; }
  sleep 0.2
done

engine() { bao secrets list | grep -q "^$1/" || bao secrets enable "$1"; }

engine database
bao write database/config/orders \
  plugin_name=postgresql-database-plugin allowed_roles=orders \
  connection_url="postgresql://{{username}}:{{password}}@$POSTGRES_ADDRESS/orders?sslmode=disable" \
  username="$POSTGRES_USER" password="$POSTGRES_PASSWORD"
bao write database/roles/orders db_name=orders default_ttl="$TTL" max_ttl="$MAX_TTL" \
  creation_statements="CREATE ROLE \"{{name}}\" LOGIN PASSWORD '{{password}}' VALID UNTIL '{{expiration}}'; GRANT orders_reader TO \"{{name}}\";"

bao write database/config/cache \
  plugin_name=valkey-database-plugin allowed_roles=cache \
  host="$REDIS_HOST" port="$REDIS_PORT" username="$REDIS_USER" password="$REDIS_PASSWORD"
bao write database/roles/cache db_name=cache default_ttl="$TTL" max_ttl="$MAX_TTL" \
  creation_statements='["~orders:*", "resetchannels", "+@read", "+@write", "+@connection", "+acl|whoami"]'

engine rabbitmq
bao write rabbitmq/config/connection \
  connection_uri="$RABBITMQ_URL" username="$RABBITMQ_USER" password="$RABBITMQ_PASSWORD"
bao write rabbitmq/config/lease ttl="$TTL" max_ttl="$MAX_TTL"
bao write rabbitmq/roles/orders \
  vhosts="{\"$RABBITMQ_VHOST\": {\"configure\": \"orders.*\", \"write\": \"orders.*|amq.default\", \"read\": \"orders.*\"}}"

# What follows is what `leasesvc vault-policy --config deploy/leasesvc/leasesvc.yaml`
# prints: the least that the service and its guards need.
# For main at http://openbao:8200. Needs a token that may write policies and token roles.
bao policy write leasesvc - <<'EOF'
path "auth/token/lookup-self" {
  capabilities = ["read"]
}
path "auth/token/renew-self" {
  capabilities = ["update"]
}
path "auth/token/revoke-self" {
  capabilities = ["update"]
}
path "auth/token/create/leasesvc" {
  capabilities = ["create", "update"]
}
path "auth/token/lookup-accessor" {
  capabilities = ["update"]
}
path "auth/token/renew-accessor" {
  capabilities = ["update"]
}
path "auth/token/revoke-accessor" {
  capabilities = ["update"]
}
path "sys/leases/lookup" {
  capabilities = ["update"]
  allowed_parameters = {
    "lease_id" = ["database/creds/cache/*", "database/creds/orders/*", "rabbitmq/creds/orders/*"]
  }
}
path "sys/leases/renew" {
  capabilities = ["update"]
  allowed_parameters = {
    "lease_id" = ["database/creds/cache/*", "database/creds/orders/*", "rabbitmq/creds/orders/*"]
    "increment" = []
  }
}
path "sys/leases/revoke" {
  capabilities = ["update"]
  allowed_parameters = {
    "lease_id" = ["database/creds/cache/*", "database/creds/orders/*", "rabbitmq/creds/orders/*"]
    "sync" = []
  }
}
EOF
bao policy write leasesvc-guard - <<'EOF'
path "database/creds/cache" {
  capabilities = ["read"]
}
path "database/creds/orders" {
  capabilities = ["read"]
}
path "rabbitmq/creds/orders" {
  capabilities = ["read"]
}
path "sys/capabilities-self" {
  capabilities = ["create", "update"]
}
EOF
bao write auth/token/roles/leasesvc allowed_policies=leasesvc-guard orphan=true renewable=true token_explicit_max_ttl=0 token_no_default_policy=true token_num_uses=0 token_period=0 token_type=service
# Then give the policy leasesvc to what leasesvc logs in with, such as one of:
#   bao write auth/approle/role/leasesvc token_policies=leasesvc
#   bao token create -orphan -period=24h -policy=leasesvc
# The end of what it prints.

umask 077
bao token create -field=token -orphan -period=1h -policy=leasesvc >"$secrets/.vault-token"
[ "$(id -u)" != 0 ] || chown 65532 "$secrets/.vault-token"
mv "$secrets/.vault-token" "$secrets/vault-token"
