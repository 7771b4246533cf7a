package verify

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

var httpAddress = address{schemes: []string{"http", "https"}, example: "https://HOST:PORT/PATH"}

// secretive are names of headers that carry a secret: such a header's value
// comes from the credential, or it would stand in the log.
var secretive = regexp.MustCompile(`(?i)(auth|cookie|token|key|secret|password)`)

func checkHTTP(spec Spec) error {
	named := []string{spec.DSN}
	for _, v := range spec.Headers {
		named = append(named, v)
	}
	stand := standIns(named...)
	u, err := httpAddress.parse(spec.DSN, stand)
	if err != nil {
		return err
	}
	if password, set := u.User.Password(); set && password != standPassword {
		return errLiteralPassword
	}
	if placeholder.MatchString(hostOf(spec.DSN)) {
		return errHostFromValues
	}
	uses := placeholder.MatchString(spec.DSN)
	for name, v := range spec.Headers {
		switch {
		case !headerName.MatchString(name):
			return errors.New("a header of the verifier has a name that HTTP does not allow")
		case secretive.MatchString(name) && !placeholder.MatchString(v):
			return errors.New("the verifier's header " + name + " sounds like a secret and has no {{key}} of the credential in it")
		}
		uses = uses || placeholder.MatchString(v)
	}
	if !uses {
		return errors.New("the verifier sends nothing of the credential: write {{username}}:{{password}}@ into its URL, or {{key}} into a header")
	}
	return nil
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$")

func prepareHTTP(spec Spec, values map[string]any) (attempt, error) {
	u, err := httpAddress.parse(spec.DSN, values)
	if err != nil {
		return nil, err
	}
	user := u.User
	u.User = nil // sent as a header, and in no error
	header := http.Header{"User-Agent": {applicationName}}
	for name, template := range spec.Headers {
		v, err := render(template, values, func(s string) string { return s })
		if err != nil {
			return nil, err
		}
		if strings.ContainsAny(v, "\r\n") {
			return nil, errors.New("a value of the credential has a line break, which no header can hold")
		}
		header.Set(name, v)
	}
	return func(ctx context.Context) *Error { return askHTTP(ctx, u, user, header) }, nil
}

// askHTTP asks once, by a connection of its own, past no proxy and after no
// redirection: both would carry the credential elsewhere.
func askHTTP(ctx context.Context, u *url.URL, user *url.Userinfo, header http.Header) *Error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return &Error{Failure: Unusable, Reason: "its URL cannot be asked"}
	}
	r.Header = header.Clone()
	if password, set := user.Password(); set {
		r.SetBasicAuth(user.Username(), password)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{}).DialContext}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		return unreachable(err)
	}
	_ = resp.Body.Close()
	reason := "status " + itoa(resp.StatusCode)
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return &Error{Failure: AuthRefused, Reason: reason}
	case code == http.StatusTooManyRequests, code >= 500:
		return &Error{Failure: Unreachable, Reason: reason}
	default:
		return &Error{Failure: Refused, Reason: reason}
	}
}
