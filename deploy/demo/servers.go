package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/go-redis/v9"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/amqplease"
	"github.com/leasesvc/leasesvc/consumer/pgxlease"
	"github.com/leasesvc/leasesvc/consumer/redislease"
)

// The names of deploy/leasesvc/definitions.yaml.
const database, broker, store = "orders-db", "orders-mq", "orders-cache"

// orders reads a table of PostgreSQL's.
type orders struct{ pool *pgxlease.Pool }

func newOrders(ctx context.Context, client *consumer.Client, dsn string) (server, error) {
	pool, err := pgxlease.New(ctx, client, database, pgxlease.Config{DSN: dsn})
	if err != nil {
		return nil, err
	}
	return orders{pool}, nil
}

func (o orders) do(ctx context.Context) (who, what string, err error) {
	var n int
	err = o.pool.QueryRow(ctx, "select current_user, (select count(*) from orders)").Scan(&who, &n)
	return who, fmt.Sprintf("%d orders", n), err
}

func (o orders) done() <-chan struct{} { return o.pool.Done() }
func (o orders) why() error            { return o.pool.Err() }
func (o orders) close()                { o.pool.Close() }

// queue sends messages through RabbitMQ and takes them back.
type queue struct {
	client *consumer.Client
	conn   *amqplease.Conn
	sent   int
	lease  uint64
	who    string
}

const queueName = "orders.demo"

func newQueue(ctx context.Context, client *consumer.Client, url string) (server, error) {
	conn, err := amqplease.New(ctx, client, broker, amqplease.Config{URL: url, Setup: func(_ context.Context, ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queueName, true, false, false, false, nil)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return &queue{client: client, conn: conn}, nil
}

// do publishes one message and takes one.
func (q *queue) do(ctx context.Context) (who, what string, err error) {
	q.sent++
	err = q.conn.Publish(ctx, "", queueName, true, amqp.Publishing{Body: []byte(strconv.Itoa(q.sent)), DeliveryMode: amqp.Persistent})
	if err != nil {
		return "", "", err
	}
	err = q.conn.With(ctx, func(_ context.Context, ch *amqp.Channel) error {
		d, ok, err := ch.Get(queueName, true)
		if err == nil && ok {
			what = fmt.Sprintf("message %s came back", d.Body)
		}
		return err
	})
	if err != nil {
		return "", "", err
	}
	return q.user(ctx), what, nil
}

// user tells as whom the queue is used. AMQP has no way to ask, so the service is
// asked what may be known of the lease in use; while that is still a candidate, it
// does not say.
func (q *queue) user(ctx context.Context) string {
	lease := q.conn.Lease()
	if lease == q.lease {
		return q.who
	}
	if cred, err := q.client.Get(ctx, broker, "username"); err == nil && cred.Lease == lease {
		q.lease, q.who = lease, cred.Public
	}
	return q.who
}

func (q *queue) done() <-chan struct{} { return q.conn.Done() }
func (q *queue) why() error            { return q.conn.Err() }
func (q *queue) close()                { q.conn.Close() }

// cache counts in Redis.
type cache struct{ client *redislease.Client }

func newCache(ctx context.Context, client *consumer.Client, addr string) (server, error) {
	c, err := redislease.New(ctx, client, store, redislease.Config{Options: &redis.Options{Addr: addr}})
	if err != nil {
		return nil, err
	}
	return cache{c}, nil
}

func (c cache) do(ctx context.Context) (who, what string, err error) {
	if who, err = c.client.Do(ctx, "ACL", "WHOAMI").Text(); err != nil {
		return "", "", err
	}
	n, err := c.client.Incr(ctx, "orders:seen").Result()
	if err == nil {
		err = c.client.Expire(ctx, "orders:seen", time.Hour).Err()
	}
	return who, fmt.Sprintf("%d seen", n), err
}

func (c cache) done() <-chan struct{} { return c.client.Done() }
func (c cache) why() error            { return c.client.Err() }
func (c cache) close()                { c.client.Close() }
