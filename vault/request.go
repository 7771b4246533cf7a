package vault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/leasesvc/leasesvc/secret"
)

// request is one call of the API.
type request struct {
	op     string // what is being done, for errors
	method string
	path   string // below /v1/
	query  url.Values
	token  secret.String
	open   bool // sent without a token
	node   bool // about the node: sent without a namespace, and not held at the gate
	body   any
	sent   []secret.String // what else of it must not come back in an error
	// mount is what it is about where path does not say, such as a lease id.
	mount string
	// vital: it keeps our own token alive, so it goes before all others.
	vital bool
	// until is when what it is about ends, if the request itself knows.
	until time.Time
	// once: at most one request may take effect (P5); otherwise a 412 is
	// repeated and Go may repeat a GET.
	once bool
	// linger: given up before then, it is left to go on to its end, since a server
	// that is broken off in the middle can leave an account without a lease. Zero:
	// it is broken off.
	linger time.Time
	// arrives, when not nil, is set once a connection was had.
	arrives *atomic.Bool
	// look: a look-up, repeated on 412.
	look bool
	// own: sent with our own token, whose refusal Run is told of.
	own bool
}

const (
	max412     = 2
	firstAgain = 100 * time.Millisecond
)

// attempt sends rq under its own deadline inside ctx and gives a 2xx answer, or
// an [Error], with the answer if it was a definite refusal.
func (c *Client) attempt(ctx context.Context, rq request) (answer, error) {
	if rq.linger.After(time.Now()) {
		return c.toItsEnd(ctx, rq)
	}
	opCtx, cancel := context.WithTimeout(ctx, c.cfg.OpTimeout)
	defer cancel()
	for n := 0; ; n++ {
		a, err := c.send(ctx, opCtx, rq)
		var e *Error
		if err == nil || !errors.As(err, &e) {
			return a, err
		}
		if e.Kind == KindPermission && rq.own {
			select {
			case c.forbidden <- struct{}{}:
			default: // Run knows already
			}
		}
		if !c.again(rq, e, n) {
			return a, err
		}
		wait := time.NewTimer(spread(firstAgain << min(n, 6)))
		select {
		case <-wait.C:
		case <-opCtx.Done():
			wait.Stop()
			return a, err
		}
	}
}

// again tells whether a call that failed for the nth time, from 0, is sent again.
func (c *Client) again(rq request, e *Error, n int) bool {
	switch {
	case rq.once:
		return false // P5
	case e.Status == http.StatusPreconditionFailed:
		return rq.look && n < max412
	case e.Kind == KindTransient, e.Kind == KindUnreachable:
		return n < c.cfg.Retries
	}
	return false
}

// spread moves d by up to 10 % either way.
func spread(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.2*float64(d))
}

// send is one exchange: a request, and if it was answered by a 307 or 308, the
// same one at the place that was named.
//
// Where to: any https address, or the same host and port over the same scheme.
// Never from https to http, and over plain http never to another host: the
// token goes along. Once; a second redirect is an error. A redirect is an
// answer that nothing was done, so this is no repetition in the sense of P5.
func (c *Client) send(ctx, opCtx context.Context, rq request) (answer, error) {
	client := c.pooled
	if rq.once {
		client = c.single
	}
	if rq.node {
		// Servers refuse it in a namespace.
		client = client.WithNamespace("")
	}
	r := client.NewRequest(rq.method, "/v1/"+rq.path)
	r.ClientToken = rq.token.Reveal()
	if rq.query != nil {
		r.Params = rq.query
	}
	if rq.body != nil {
		if err := r.SetJSONBody(rq.body); err != nil {
			return answer{}, c.invalid(rq.op, rq.path, errors.New("the request can't be written as JSON"))
		}
	}
	a := answer{sentAt: time.Now()}
	for followed := false; ; followed = true {
		from := *r.URL
		c.stats.count(func(is *Stats) { is.Requests++ })
		got := rq.arrives
		if got == nil {
			got = &atomic.Bool{}
		}
		resp, sent, err := exchange(opCtx, client, r, got)
		if resp == nil {
			return answer{}, c.unanswered(ctx, opCtx, rq, sent, err)
		}
		body, readErr := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		a.status, a.body = resp.StatusCode, body
		a.serverTime, _ = http.ParseTime(resp.Header.Get("Date"))
		switch {
		case a.status >= 200 && a.status < 300 && readErr != nil:
			if errors.Is(readErr, errBodyTooLarge) {
				return answer{}, c.malformed(rq, a, readErr)
			}
			return answer{}, c.unanswered(ctx, opCtx, rq, true, readErr)
		case a.status >= 200 && a.status < 300:
			return a, nil
		case a.status == http.StatusTemporaryRedirect, a.status == http.StatusPermanentRedirect:
			to, err := redirectTarget(&from, resp.Header.Get("Location"))
			if err == nil && followed {
				err = errors.New("redirected a second time")
			}
			if err != nil {
				return answer{}, &Error{Op: rq.op, Conn: c.cfg.Name, Path: rq.path, Kind: KindRedirect, Status: a.status, Err: err}
			}
			r.Params = to.Query()
			r.URL, r.Host = to, to.Host
		case a.status >= 300 && a.status < 400:
			return answer{}, &Error{Op: rq.op, Conn: c.cfg.Name, Path: rq.path, Kind: KindRedirect, Status: a.status,
				Err: errors.New("only 307 and 308 are followed")}
		default:
			return a, c.refused(rq, a, resp.Header, readErr)
		}
	}
}

// exchange sends r once. sent, and got, tell whether a connection was had, after
// which the request may have arrived.
func exchange(ctx context.Context, client *api.Client, r *api.Request, got *atomic.Bool) (resp *api.Response, sent bool, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { got.Store(true) },
	})
	//lint:ignore SA1019 the client's Logical methods do not tell whether a request was sent
	resp, err = client.RawRequestWithContext(ctx, r)
	if resp != nil && resp.Response == nil {
		resp = nil
	}
	return resp, got.Load(), err
}

func redirectTarget(from *url.URL, location string) (*url.URL, error) {
	if location == "" {
		return nil, errors.New("the redirect names no place")
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, errors.New("the redirect names no URL")
	}
	switch {
	case to.User != nil:
		return nil, errors.New("the redirect has a user in its URL")
	case to.Scheme == "https", to.Scheme == from.Scheme && to.Host == from.Host:
		to.Fragment = ""
		return to, nil
	}
	return nil, fmt.Errorf("not followed to %s://%.128s: the token goes to the same host, or over https only", to.Scheme, redact(to.Host))
}

// unanswered makes the error of a call that got no whole answer.
func (c *Client) unanswered(ctx, opCtx context.Context, rq request, sent bool, err error) *Error {
	e := &Error{Op: rq.op, Conn: c.cfg.Name, Path: rq.path, Kind: KindUnreachable, OutcomeUnknown: sent}
	var asURL *url.Error
	if errors.As(err, &asURL) {
		err = asURL.Err // its text repeats the address
	}
	e.Err = err
	if e.Err == nil {
		e.Err = errors.New("no answer")
	}
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e.Kind = KindCanceled
	case opCtx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		e.Kind = KindTimeout
	case errors.Is(err, errBodyTooLarge):
		e.Kind = KindMalformed
	}
	return e
}

// malformed makes the error of a 2xx answer that can't be used. Whatever was
// asked for has likely been done.
func (c *Client) malformed(rq request, a answer, err error) *Error {
	return &Error{Op: rq.op, Conn: c.cfg.Name, Path: rq.path, Kind: KindMalformed, Status: a.status, OutcomeUnknown: true, Err: err}
}

// refused makes the error of an answer of 400 and above.
func (c *Client) refused(rq request, a answer, header http.Header, readErr error) *Error {
	e := &Error{Op: rq.op, Conn: c.cfg.Name, Path: rq.path, Status: a.status}
	messages, fromVault := errorDocument(a.body)
	if readErr != nil {
		messages, fromVault = nil, false
	}
	e.Kind = kindOfStatus(a.status, fromVault, messages)
	e.Messages = bounded(messages, slices.Concat(rq.sent, []secret.String{rq.token, c.ownToken()})...)
	e.RetryAfter = retryAfter(header.Get("Retry-After"), time.Now())
	if !fromVault {
		e.Err = errors.New("the answer is not the API's error document, so something in between may have given it")
		// A gateway that gave up does not know what became of the request.
		e.OutcomeUnknown = a.status >= 500
	}
	return e
}

// errorDocument reads {"errors": [...]}; fromVault tells whether it was one.
func errorDocument(body []byte) (messages []string, fromVault bool) {
	var doc struct {
		Errors   *[]string       `json:"errors"`
		Data     json.RawMessage `json:"data"`
		Warnings []string        `json:"warnings"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return nil, false
	}
	if doc.Errors != nil {
		return append(*doc.Errors, doc.Warnings...), true
	}
	// A KV version that was deleted: 404 with its metadata as data.
	return doc.Warnings, len(doc.Data) > 0
}

func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	var wait time.Duration
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		wait = time.Duration(min(max(seconds, 0), 3600)) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), time.Hour)
}
