package verify

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// address is a DSN in the form of a URL, as all kinds but PostgreSQL have it:
// scheme://{{username}}:{{password}}@host:port/path?settings.
type address struct {
	schemes  []string
	port     string   // where none is named
	settings []string // allowed in the query
	example  string
}

// Stand-ins for values, which a check can recognise.
const (
	standUser     = "candidate-user"
	standPassword = "candidate-password"
	standOther    = "1" // fits a port as well as a name
)

func standIns(templates ...string) map[string]any {
	stand := map[string]any{"username": standUser, "password": standPassword}
	for _, template := range templates {
		for _, found := range placeholder.FindAllStringSubmatch(template, -1) {
			if _, set := stand[found[1]]; !set {
				stand[found[1]] = standOther
			}
		}
	}
	return stand
}

// check renders the template with values that it can recognise, and looks where
// they end up.
func (a address) check(template string) error {
	u, err := a.parse(template, standIns(template))
	if err != nil {
		return err
	}
	password, set := u.User.Password()
	switch {
	case set && password != standPassword:
		return errLiteralPassword
	case !set || u.User.Username() != standUser:
		return errNoPlaceholders
	case placeholder.MatchString(hostOf(template)):
		return errHostFromValues
	}
	for name := range u.Query() {
		if !slices.Contains(a.settings, name) {
			return fmt.Errorf("the verifier's DSN has a setting that is not known; known: %s", orNone(a.settings))
		}
	}
	return nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

var errHostFromValues = errors.New("the verifier's DSN takes its host from the credential, which would send the password where the credential says:" +
	" write the host out")

// hostOf gives the host of a template. It is looked for in the text: a template
// is no URL yet.
func hostOf(template string) string {
	_, rest, _ := strings.Cut(template, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return rest[strings.LastIndex(rest, "@")+1:]
}

// parse puts the values in and reads the URL. Its errors repeat nothing of it.
func (a address) parse(template string, values map[string]any) (*url.URL, error) {
	rendered, err := render(template, values, escapeURL)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(rendered)
	if err != nil || !slices.Contains(a.schemes, u.Scheme) || u.Fragment != "" || u.Opaque != "" {
		return nil, fmt.Errorf("the verifier's DSN cannot be read: write %s", a.example)
	}
	if u.Hostname() == "" {
		return nil, errNoHost
	}
	return u, nil
}

// hostPort gives the host and port to dial.
func (a address) hostPort(u *url.URL) string {
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), a.port)
	}
	return u.Host
}

// account gives the user and password of a rendered URL.
func account(u *url.URL) (user, password string) {
	password, _ = u.User.Password()
	return u.User.Username(), password
}
