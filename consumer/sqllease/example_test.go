package sqllease_test

import (
	"context"
	"log"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/sqllease"
	"github.com/leasesvc/leasesvc/secret"
)

func ExampleOpen() {
	ctx := context.Background()
	client, err := consumer.Connect(ctx, consumer.Options{
		URL: "nats://127.0.0.1:4222", Scope: "prod", Consumer: "shop", Instance: "shop-0",
		Seed: secret.New("SU..."), ServiceKey: "X...",
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer client.Close()

	dialect, err := sqllease.MySQL("tcp(db.internal:3306)/shop?parseTime=true&tls=true")
	if err != nil {
		log.Print(err)
		return
	}
	db, err := sqllease.Open(ctx, client, "shop-db", dialect, sqllease.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	defer db.Close()
	db.SetMaxOpenConns(10)

	var items int
	if err := db.QueryRowContext(ctx, "select count(*) from items").Scan(&items); err != nil {
		log.Print(err)
	}
}
