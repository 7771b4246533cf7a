package clustertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// monitor asks a server's monitoring port, within 500 ms.
func (c *Cluster) monitor(i int, path string, into any) error {
	client := http.Client{Timeout: 500 * time.Millisecond, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/%s", c.nodes[i].monitor, path))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// streamsOf gives, for each stream of a server, who it takes for its leader,
// and whether all of its replicas are current where the server is that leader.
func (c *Cluster) streamsOf(i int) (leader map[string]string, current map[string]bool, meta string, err error) {
	var jsz struct {
		Meta *struct {
			Leader string `json:"leader"`
		} `json:"meta_cluster"`
		Accounts []struct {
			Streams []struct {
				Name    string `json:"name"`
				Cluster struct {
					Leader   string `json:"leader"`
					Replicas []struct {
						Name    string `json:"name"`
						Current bool   `json:"current"`
						Offline bool   `json:"offline"`
					} `json:"replicas"`
				} `json:"cluster"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := c.monitor(i, "jsz?accounts=true&streams=true", &jsz); err != nil {
		return nil, nil, "", err
	}
	leader, current = map[string]string{}, map[string]bool{}
	for _, a := range jsz.Accounts {
		for _, s := range a.Streams {
			leader[s.Name] = s.Cluster.Leader
			ok := true
			for _, r := range s.Cluster.Replicas {
				ok = ok && r.Current && !r.Offline
			}
			current[s.Name] = ok
		}
	}
	if jsz.Meta != nil {
		meta = jsz.Meta.Leader
	}
	return leader, current, meta, nil
}

// StreamLeader tells which running server says that it leads the stream; -1:
// none does at the moment.
func (c *Cluster) StreamLeader(stream string) int {
	for i, n := range c.nodes {
		if !c.Running(i) {
			continue
		}
		if leader, _, _, err := c.streamsOf(i); err == nil && leader[stream] == n.name {
			return i
		}
	}
	return -1
}

// AwaitStreamLeader waits until a running server leads the stream.
func (c *Cluster) AwaitStreamLeader(stream string) (server int) {
	c.t.Helper()
	Await(c.t, readyWithin, "a leader of stream "+stream, func() bool {
		server = c.StreamLeader(stream)
		return server >= 0
	})
	return server
}

// AwaitReady waits until all three servers run, JetStream has a leader, and
// each stream has one whose replicas are current: until another server may be
// killed.
func (c *Cluster) AwaitReady() {
	c.t.Helper()
	Await(c.t, 2*readyWithin, "the cluster to be whole", func() bool {
		if c.whole() {
			return true
		}
		<-time.After(10 * poll) // looking costs the servers something
		return false
	})
}

func (c *Cluster) whole() bool {
	known, led := map[string]bool{}, map[string]bool{}
	var metas []string
	for i, n := range c.nodes {
		var health struct {
			Status string `json:"status"`
		}
		if !c.Running(i) || c.monitor(i, "healthz", &health) != nil || health.Status != "ok" {
			return false
		}
		leader, current, meta, err := c.streamsOf(i)
		if err != nil || meta == "" {
			return false
		}
		metas = append(metas, meta)
		for s, l := range leader {
			known[s] = true
			if l == n.name && current[s] {
				led[s] = true
			}
		}
	}
	return len(slices.Compact(metas)) == 1 && len(led) == len(known)
}

// MoveLeader asks the stream's leader to step down for a server, until that
// leads.
func (c *Cluster) MoveLeader(stream string, to int) {
	c.t.Helper()
	Await(c.t, readyWithin, fmt.Sprintf("%s to lead stream %s", c.nodes[to].name, stream), func() bool {
		if c.StreamLeader(stream) == to {
			return true
		}
		body := fmt.Sprintf(`{"placement":{"preferred":%q}}`, c.nodes[to].name)
		_, _ = c.admin.Request("$JS.API.STREAM.LEADER.STEPDOWN."+stream, []byte(body), time.Second)
		<-time.After(100 * time.Millisecond)
		return c.StreamLeader(stream) == to
	})
}

// Subscriber tells which server the client is connected to that subscribes to
// a subject; -1: none.
func (c *Cluster) Subscriber(subject string) int {
	for i := range c.nodes {
		if !c.Running(i) {
			continue
		}
		var connz struct {
			Connections []struct {
				Subscriptions []string `json:"subscriptions_list"`
			} `json:"connections"`
		}
		if c.monitor(i, "connz?subs=1&limit=1000", &connz) != nil {
			continue
		}
		for _, conn := range connz.Connections {
			if slices.Contains(conn.Subscriptions, subject) {
				return i
			}
		}
	}
	return -1
}

// Elections delivers the time at which this process hears that a server was
// elected leader of a stream, until the subscription is ended.
func (c *Cluster) Elections(nc *nats.Conn, stream string) (<-chan time.Time, *nats.Subscription) {
	c.t.Helper()
	elected := make(chan time.Time, 64)
	sub, err := nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."+stream, func(m *nats.Msg) {
		if strings.Contains(string(m.Data), `"leader"`) {
			select {
			case elected <- time.Now():
			default:
			}
		}
	})
	if err != nil {
		c.t.Fatalf("clustertest: subscribing to elections: %v", err)
	}
	return elected, sub
}
