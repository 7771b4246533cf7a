// Command demo is the application of docker-compose.yml: it works with PostgreSQL,
// RabbitMQ and Redis each second, and has no credential of its own for any of them.
//
// The three adapters of package consumer keep it on what is in force. It says who
// it is in each when that changes, and each ten seconds what it has done and what
// has failed; nothing should.
//
// It is configured by its environment: NATS_URL, NATS_USER, NATS_PASSWORD_FILE;
// SCOPE, CONSUMER, INSTANCE, SEED_FILE and SERVICE_KEY_FILE say who it is and whom it
// trusts; POSTGRES (a DSN without user), RABBITMQ (a URL without user) and REDIS (an
// address) where its servers are.
package main
