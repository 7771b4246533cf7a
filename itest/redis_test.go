package itest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasesvc/leasesvc/consumer"
	"github.com/leasesvc/leasesvc/consumer/redislease"
	"github.com/leasesvc/leasesvc/itest/redistest"
)

func TestRedis(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	o, err := redis.ParseURL(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(o)
	t.Cleanup(func() { admin.Close() })
	const rules, off = `["~*", "&*", "+@all"]`, `["off", "~*", "&*", "+@all"]`
	host, port, _ := strings.Cut(srv.Addr(), ":")
	rotations(t, engine{
		kind: "redis", path: "database/creds/app",
		verifier: `{kind: redis, dsn: "redis://{{username}}:{{password}}@` + srv.Addr() + `", timeout: 1s}`,
		setUp: func(v *vaultServer) {
			v.database(t, map[string]any{"plugin_name": "redis-database-plugin", "host": host, "port": port,
				"username": srv.Superuser(), "password": srv.Password()}, rules)
		},
		users: func(ctx context.Context) ([]string, error) {
			all, err := admin.Do(ctx, "ACL", "USERS").StringSlice()
			var ours []string
			for _, u := range all {
				if strings.HasPrefix(u, "V_") {
					ours = append(ours, u)
				}
			}
			return ours, err
		},
		breakNext: func(v *vaultServer, broken bool) {
			statement := rules
			if broken {
				statement = off
			}
			v.must(t, "POST", "database/roles/app", map[string]any{"db_name": "db", "default_ttl": "1h", "max_ttl": "2h", "creation_statements": []string{statement}})
		},
		start: func(_ *rig, client *consumer.Client, l *load) func() {
			c, err := redislease.New(within(t, 60*time.Second), client, "orders", redislease.Config{
				Options: &redis.Options{Addr: srv.Addr(), PoolSize: 8, ContextTimeoutEnabled: true, MaxRetries: -1}})
			if err != nil {
				t.Fatal(err)
			}
			news, err := c.Subscribe(within(t, 60*time.Second), "news")
			if err != nil {
				t.Fatal(err)
			}
			var published, came atomic.Int64
			counted := make(chan struct{})
			go func() {
				defer close(counted)
				for range news.Channel() {
					came.Add(1)
				}
			}()
			l.work(8, func(ctx context.Context, i int) (string, error) {
				switch i % 4 {
				case 0:
					return c.Do(ctx, "ACL", "WHOAMI").Text()
				case 1:
					published.Add(1)
					return "", c.Publish(ctx, "news", i).Err()
				case 2:
					_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
						p.Set(ctx, fmt.Sprint("k", i), i, time.Minute)
						return p.Get(ctx, fmt.Sprint("k", i)).Err()
					})
					return "", err
				default:
					return "", c.Incr(ctx, "n").Err()
				}
			})
			return func() {
				// What was published has come, or comes at once.
				await(t, 60*time.Second, "every message that was published", func() bool { return came.Load() >= published.Load() })
				t.Logf("%d messages published, %d came", published.Load(), came.Load())
				c.Close()
				<-counted
			}
		},
	})
}
