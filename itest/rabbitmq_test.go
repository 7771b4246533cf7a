package itest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/amqplease"
	"github.com/leasesvc/leasesvc/itest/rabbittest"
)

func TestRabbitMQ(t *testing.T) {
	t.Parallel()
	srv := rabbittest.Start(t)
	const everything = `{"/":{"configure":".*","write":".*","read":".*"}}`
	role := func(v *vaultServer, fields map[string]any) { v.must(t, "POST", "rabbitmq/roles/app", fields) }
	rotations(t, engine{
		kind: "rabbitmq", path: "rabbitmq/creds/app",
		// A refused login is answered after a second or more.
		verifier: `{kind: rabbitmq, dsn: "amqp://{{username}}:{{password}}@` + srv.Addr() + `/%2F", timeout: 3s}`,
		setUp: func(v *vaultServer) {
			v.must(t, "POST", "sys/mounts/rabbitmq", map[string]any{"type": "rabbitmq"})
			v.must(t, "POST", "rabbitmq/config/connection", map[string]any{"connection_uri": srv.ManagementURL(), "username": srv.Administrator(), "password": srv.Password()})
			v.must(t, "POST", "rabbitmq/config/lease", map[string]any{"ttl": "1h", "max_ttl": "2h"})
			role(v, map[string]any{"vhosts": everything})
			v.must(t, "PUT", "sys/policies/acl/guarded", map[string]any{"policy": `path "rabbitmq/creds/*" { capabilities = ["read"] }`})
		},
		users: func(ctx context.Context) ([]string, error) { return rabbitUsers(ctx, srv) },
		breakNext: func(v *vaultServer, broken bool) {
			if broken { // an account that no virtual host lets in
				v.must(t, "DELETE", "rabbitmq/roles/app", nil)
				role(v, map[string]any{"tags": "monitoring"})
				return
			}
			role(v, map[string]any{"vhosts": everything})
		},
		start: func(_ *rig, client *consumer.Client, l *load) func() {
			c, err := amqplease.New(within(t, 60*time.Second), client, "orders", amqplease.Config{
				URL: "amqp://" + srv.Addr() + "/%2F", Channels: 4,
				Setup: func(_ context.Context, ch *amqp.Channel) error {
					_, err := ch.QueueDeclare("jobs", true, false, false, false, nil)
					return err
				}})
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			confirmed, came := map[string]bool{}, map[string]int{}
			reading, stopReading := context.WithCancel(context.Background())
			var reader sync.WaitGroup
			reader.Go(func() {
				err := c.Consume(reading, "jobs", amqplease.ConsumeOptions{Prefetch: 5}, func(_ context.Context, d amqp.Delivery) {
					err := d.Ack(false)
					l.done.Add(1)
					l.saw("", err)
					mu.Lock()
					defer mu.Unlock()
					came[string(d.Body)]++
				})
				if err != nil {
					t.Errorf("consuming: %v", err)
				}
			})
			var serial int
			l.work(4, func(ctx context.Context, _ int) (string, error) {
				mu.Lock()
				serial++
				body := fmt.Sprint(serial)
				mu.Unlock()
				err := c.Publish(ctx, "", "jobs", true, amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent})
				mu.Lock()
				defer mu.Unlock()
				confirmed[body] = err == nil
				return "", err
			})
			return func() {
				missing := func() (n int) {
					mu.Lock()
					defer mu.Unlock()
					for body, ok := range confirmed {
						if ok && came[body] == 0 {
							n++
						}
					}
					return n
				}
				await(t, 60*time.Second, "every message that was confirmed", func() bool { return missing() == 0 })
				stopReading()
				reader.Wait()
				t.Logf("%d messages confirmed, %d came", len(confirmed), len(came))
				c.Close()
			}
		},
	})
}

func rabbitUsers(ctx context.Context, srv *rabbittest.Server) ([]string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.ManagementURL()+"/api/users", nil)
	if err != nil {
		return nil, err
	}
	r.SetBasicAuth(srv.Administrator(), srv.Password())
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var users []struct{ Name string }
	if err := json.NewDecoder(resp.Body).Decode(&users); err != nil {
		return nil, err
	}
	var ours []string
	for _, u := range users {
		if strings.HasPrefix(u.Name, "token-") {
			ours = append(ours, u.Name)
		}
	}
	return ours, nil
}
