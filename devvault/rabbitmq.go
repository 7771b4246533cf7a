package devvault

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// rabbitmq is a RabbitMQ engine. Its state is guarded by Server.mu.
type rabbitmq struct {
	server     *Server
	mount      *mount
	broker     Broker // of the configuration; nil is the server's
	leased     bool   // config/lease was written
	ttl, limit time.Duration
	roles      map[string]*rabbitRole
}

// rabbitRole is what rabbitmq/roles/:name keeps.
type rabbitRole struct {
	tags   string
	vhosts map[string]Permission
	topics map[string]map[string]Permission
}

func (r *rabbitmq) exists(string) bool { return true }

func (r *rabbitmq) handle(req *request, sub string) (*response, error) {
	head, name, _ := strings.Cut(strings.TrimSuffix(sub, "/"), "/")
	switch {
	case sub == "config/connection":
		return r.connectionAPI(req)
	case sub == "config/lease":
		return r.leaseAPI(req)
	case head == "roles":
		return r.roleAPI(req, name)
	case head == "creds" && name != "":
		if req.op != opRead {
			return nil, unsupportedOperation()
		}
		return r.newCreds(req, name)
	}
	return nil, unsupportedPath()
}

func (r *rabbitmq) connectionAPI(req *request) (*response, error) {
	if !req.op.write() {
		return nil, unsupportedOperation()
	}
	f := req.fields()
	c := Connection{URL: f.text("connection_uri"), Username: f.text("username"), Password: secret.New(f.text("password"))}
	verify := f.boolean("verify_connection", true)
	switch {
	case f.err != nil:
		return nil, f.err
	case c.URL == "":
		return nil, badRequest("missing connection_uri")
	case c.Username == "":
		return nil, badRequest("missing username")
	case c.Password.IsZero():
		return nil, badRequest("missing password")
	}
	broker := r.server.cfg.Broker
	if connector, ok := broker.(BrokerConnector); ok {
		var err error
		if broker, err = connector.ConnectBroker(req.ctx, c, verify); err != nil {
			return nil, listed(http.StatusInternalServerError, "failed to validate the connection: "+err.Error())
		}
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.broker = broker
	return nil, nil
}

func (r *rabbitmq) leaseAPI(req *request) (*response, error) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	switch {
	case req.op == opRead:
		if !r.leased {
			return nil, nil
		}
		return &response{data: map[string]any{"ttl": int64(r.ttl.Seconds()), "max_ttl": int64(r.limit.Seconds())}}, nil
	case req.op.write():
		f := req.fields()
		ttl, limit := f.seconds("ttl"), f.seconds("max_ttl")
		if f.err != nil {
			return nil, f.err
		}
		r.leased, r.ttl, r.limit = true, ttl, limit
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (r *rabbitmq) roleAPI(req *request, name string) (*response, error) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	switch {
	case req.op == opList:
		return keysOf(mapKeys(r.roles)), nil
	case name == "":
		return nil, unsupportedOperation()
	case req.op == opRead:
		role := r.roles[name]
		if role == nil {
			return nil, nil
		}
		topics := map[string]any{}
		for vhost, exchanges := range role.topics {
			in := map[string]any{}
			for exchange, p := range exchanges {
				in[exchange] = map[string]any{"write": p.Write, "read": p.Read}
			}
			topics[vhost] = in
		}
		vhosts := role.vhosts
		if vhosts == nil {
			vhosts = map[string]Permission{}
		}
		return &response{data: map[string]any{"tags": role.tags, "vhosts": vhosts, "vhost_topics": topics}}, nil
	case req.op.write():
		return r.writeRole(req, name)
	case req.op == opDelete:
		delete(r.roles, name)
		return nil, nil
	}
	return nil, unsupportedOperation()
}

func (r *rabbitmq) writeRole(req *request, name string) (*response, error) {
	f := req.fields()
	next := rabbitRole{tags: f.text("tags")}
	vhosts, topics := f.text("vhosts"), f.text("vhost_topics")
	switch {
	case f.err != nil:
		return nil, f.err
	case next.tags == "" && vhosts == "":
		return nil, badRequest("both tags and vhosts not specified")
	}
	if vhosts != "" {
		if err := json.Unmarshal([]byte(vhosts), &next.vhosts); err != nil {
			return nil, badRequest("failed to unmarshal vhosts: " + err.Error())
		}
	}
	if topics != "" {
		if err := json.Unmarshal([]byte(topics), &next.topics); err != nil {
			return nil, badRequest("failed to unmarshal vhost_topics: " + err.Error())
		}
	}
	r.roles[name] = &next
	return nil, nil
}

// current is the broker in use. The caller holds s.mu.
func (r *rabbitmq) current() Broker {
	if r.broker != nil {
		return r.broker
	}
	return r.server.cfg.Broker
}

// limits are those of config/lease. The caller holds s.mu.
func (r *rabbitmq) limits() grant {
	return grant{usual: r.ttl, max: r.limit, systemDefault: r.mount.defaultTTL(r.server), systemMax: r.mount.maxTTL(r.server)}
}

func (r *rabbitmq) newCreds(req *request, name string) (*response, error) {
	s := r.server
	s.mu.Lock()
	role, broker := r.roles[name], r.current()
	ttl, warnings, err := r.limits().ttl(s.now())
	s.mu.Unlock()
	if role == nil {
		return nil, badRequest("unknown role: " + name)
	}
	if err != nil {
		return nil, listed(http.StatusInternalServerError, err.Error())
	}
	u := BrokerUser{
		Name: req.token.display + "-" + randomUUID(), Password: secret.New(randomBase62(36)),
		Tags: role.tags, VHosts: role.vhosts, Topics: role.topics,
	}
	if err := broker.CreateUser(req.ctx, u); err != nil {
		return nil, listed(http.StatusInternalServerError, err.Error())
	}
	l := &lease{
		id: req.path + "/" + randomBase62(24), path: req.path, role: name, user: u.Name, renewable: true, ttl: ttl,
		credential: &rabbitCredential{engine: r, user: u.Name},
	}
	if err := s.grantLease(req, l); err != nil {
		return nil, err
	}
	return &response{
		lease: &leaseAnswer{id: l.id, renewable: true, ttl: l.ttl}, warnings: warnings,
		data: map[string]any{"username": u.Name, "password": u.Password.Reveal()},
	}, nil
}

// rabbitCredential is a user of a broker. A renewal needs neither role nor
// broker.
type rabbitCredential struct {
	engine *rabbitmq
	user   string
}

func (c *rabbitCredential) renewal() (grant, func(context.Context, time.Time) error, error) {
	return c.engine.limits(), nil, nil
}

func (c *rabbitCredential) ending() func(context.Context) error {
	broker := c.engine.current()
	return func(ctx context.Context) error { return broker.DropUser(ctx, c.user) }
}
