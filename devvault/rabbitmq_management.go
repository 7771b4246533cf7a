package devvault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

// managementTimeout bounds one request to a management API.
const managementTimeout = 30 * time.Second

// RabbitMQ is a [Broker] that creates users through the management API of a
// real broker. It keeps no connection open. The zero value serves what
// rabbitmq/config/connection names, and nothing before.
type RabbitMQ struct {
	url      string
	username string
	password secret.String
}

// NewRabbitMQ makes one whose own broker's management API is at url, for an
// administrator's user name and password. A configuration replaces it.
func NewRabbitMQ(url, username string, password secret.String) *RabbitMQ {
	return &RabbitMQ{url: strings.TrimSuffix(url, "/"), username: username, password: password}
}

// ConnectBroker implements BrokerConnector.
func (b *RabbitMQ) ConnectBroker(ctx context.Context, c Connection, verify bool) (Broker, error) {
	to := NewRabbitMQ(c.URL, c.Username, c.Password)
	if !verify {
		return to, nil
	}
	if _, err := to.Users(ctx); err != nil {
		return nil, err
	}
	return to, nil
}

// CreateUser implements Broker.
func (b *RabbitMQ) CreateUser(ctx context.Context, u BrokerUser) error {
	user := map[string]any{"password": u.Password.Reveal(), "tags": u.Tags}
	if err := b.call(ctx, http.MethodPut, "users/"+url.PathEscape(u.Name), user, nil); err != nil {
		return fmt.Errorf("creating user %q: %w", u.Name, err)
	}
	if err := b.permit(ctx, u); err != nil {
		// In an unknown state, it must not stay. The context may be over.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), managementTimeout)
		defer cancel()
		return errors.Join(fmt.Errorf("giving user %q its permissions: %w", u.Name, err), b.DropUser(ctx, u.Name))
	}
	return nil
}

func (b *RabbitMQ) permit(ctx context.Context, u BrokerUser) error {
	for vhost, p := range u.VHosts {
		if err := b.call(ctx, http.MethodPut, "permissions/"+url.PathEscape(vhost)+"/"+url.PathEscape(u.Name), p, nil); err != nil {
			return err
		}
	}
	for vhost, exchanges := range u.Topics {
		for exchange, p := range exchanges {
			body := map[string]any{"exchange": exchange, "write": p.Write, "read": p.Read}
			if err := b.call(ctx, http.MethodPut, "topic-permissions/"+url.PathEscape(vhost)+"/"+url.PathEscape(u.Name), body, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// DropUser implements Broker. The broker closes the connections that the user
// has open.
func (b *RabbitMQ) DropUser(ctx context.Context, name string) error {
	err := b.call(ctx, http.MethodDelete, "users/"+url.PathEscape(name), nil, nil)
	var refused *managementError
	if errors.As(err, &refused) && refused.status == http.StatusNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("could not delete user: %w", err)
	}
	return nil
}

// Users implements Broker.
func (b *RabbitMQ) Users(ctx context.Context) ([]string, error) {
	var users []struct {
		Name string `json:"name"`
	}
	if err := b.call(ctx, http.MethodGet, "users/", nil, &users); err != nil {
		return nil, err
	}
	names := make([]string, len(users))
	for i, u := range users {
		names[i] = u.Name
	}
	slices.Sort(names)
	return names, nil
}

// managementError is an answer of the management API that is no success.
type managementError struct {
	status int
	reason string
}

func (e *managementError) Error() string {
	if e.reason == "" {
		return fmt.Sprintf("Error: API responded with a %d %s", e.status, http.StatusText(e.status))
	}
	return fmt.Sprintf("Error %d %s", e.status, e.reason)
}

func (b *RabbitMQ) call(ctx context.Context, method, path string, body, out any) error {
	if b.url == "" {
		return errors.New("no broker: write rabbitmq/config/connection first")
	}
	ctx, cancel := context.WithTimeout(ctx, managementTimeout)
	defer cancel()
	var payload bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&payload).Encode(body); err != nil {
			return fmt.Errorf("encoding a request to the management API: %w", err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, b.url+"/api/"+path, &payload) //nolint:gosec // the configuration says which broker, as it must
	if err != nil {
		return errors.New("the management API's URL cannot be parsed: check connection_uri")
	}
	r.SetBasicAuth(b.username, b.password.Reveal())
	r.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r) //nolint:gosec // as above
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		failed := &managementError{status: resp.StatusCode}
		var why struct{ Error, Reason string }
		if resp.StatusCode != http.StatusUnauthorized && json.NewDecoder(io.LimitReader(resp.Body, 4096)).Decode(&why) == nil {
			failed.reason = fmt.Sprintf("(%s): %s", why.Error, why.Reason)
		}
		return failed
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(out); err != nil {
		return fmt.Errorf("reading the management API's answer: %w", err)
	}
	return nil
}

var (
	_ Broker          = (*RabbitMQ)(nil)
	_ BrokerConnector = (*RabbitMQ)(nil)
)
