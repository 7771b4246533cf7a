package amqplease_test

import (
	"context"
	"log"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/amqplease"
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

	mq, err := amqplease.New(ctx, client, "shop-mq", amqplease.Config{
		URL: "amqps://mq.internal:5671/shop",
		Setup: func(_ context.Context, ch *amqp.Channel) error {
			_, err := ch.QueueDeclare("orders", true, false, false, false, nil)
			return err
		},
	})
	if err != nil {
		log.Print(err)
		return
	}
	defer mq.Close()

	if err := mq.Publish(ctx, "", "orders", true, amqp.Publishing{Body: []byte("one more")}); err != nil {
		log.Print(err)
	}
	err = mq.Consume(ctx, "orders", amqplease.ConsumeOptions{Prefetch: 10}, func(_ context.Context, d amqp.Delivery) {
		log.Printf("%s", d.Body)
		if err := d.Ack(false); err != nil {
			log.Print(err)
		}
	})
	if err != nil {
		log.Print(err)
	}
}
