package pgxlease_test

import (
	"context"
	"log"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/pgxlease"
	"github.com/leasesvc/leasesvc/secret"
)

func ExampleNew() {
	ctx := context.Background()
	client, err := consumer.Connect(ctx, consumer.Options{
		URL: "nats://127.0.0.1:4222", Scope: "prod", Consumer: "orders-api", Instance: "orders-api-0",
		Seed: secret.New("SU..."), ServiceKey: "X...",
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer client.Close()

	pool, err := pgxlease.New(ctx, client, "orders-db", pgxlease.Config{
		DSN: "host=db.internal dbname=orders sslmode=verify-full pool_max_conns=10",
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer pool.Close()

	var orders int
	if err := pool.QueryRow(ctx, "select count(*) from orders").Scan(&orders); err != nil {
		log.Print(err)
	}
}
