package redislease_test

import (
	"context"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/redislease"
	"github.com/leasesvc/leasesvc/secret"
)

func ExampleNew() {
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

	cache, err := redislease.New(ctx, client, "shop-cache", redislease.Config{Options: &redis.Options{Addr: "cache.internal:6379"}})
	if err != nil {
		log.Print(err)
		return
	}
	defer cache.Close()

	if err := cache.Set(ctx, "greeting", "hello", time.Hour).Err(); err != nil {
		log.Print(err)
	}
	news, err := cache.Subscribe(ctx, "news")
	if err != nil {
		log.Print(err)
		return
	}
	for m := range news.Channel() {
		log.Print(m.Payload)
	}
}
