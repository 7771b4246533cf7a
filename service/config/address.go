package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// listen is the address of a listener of ours.
func listen(to *string) text {
	return text{to: to, what: "address", check: checkListen, allowed: "host:port, such as 127.0.0.1:8250, or 0.0.0.0:8250 for every interface; port 0 takes a free one"}
}

func checkListen(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return errors.New("is not host:port (an IPv6 address needs brackets)")
	}
	if host == "" {
		return errors.New("has no host")
	}
	if net.ParseIP(host) == nil && !hostName.MatchString(host) {
		return errors.New("its host is no IP address or host name")
	}
	return checkPort(port)
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?$`)

func checkPort(port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return errors.New("its port is not a number from 0 to 65535")
	}
	return nil
}

// checkURL takes a URL apart that may have only a scheme, a host and, if
// withPath, a path. Its errors never repeat it: a password may stand in it.
func checkURL(s string, withPath bool, schemes ...string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Opaque != "":
		return errors.New("is not a URL")
	case !slices.Contains(schemes, u.Scheme):
		return fmt.Errorf("its scheme is not one of %s", strings.Join(schemes, ", "))
	case u.User != nil:
		return errors.New("holds a user or password, which don't belong here; use the keys beside it, which name files")
	case u.Hostname() == "":
		return errors.New("has no host")
	case net.ParseIP(u.Hostname()) == nil && !hostName.MatchString(u.Hostname()):
		return errors.New("its host is no IP address or host name")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery || strings.HasSuffix(s, "#"):
		return errors.New("has a query or fragment, which means nothing here")
	case !withPath && strings.Trim(u.Path, "/") != "":
		return errors.New("has a path, which means nothing here")
	case u.Port() == "" && strings.HasSuffix(u.Host, ":"):
		return errors.New("has no port after its colon")
	case u.Port() != "":
		return checkPort(u.Port())
	}
	return nil
}

// checkNATSURL checks one or more URLs of NATS servers.
func checkNATSURL(s string) error {
	servers := strings.Split(s, ",")
	if len(servers) > 32 {
		return fmt.Errorf("names %d servers, at most 32 are allowed", len(servers))
	}
	for i, one := range servers {
		if err := checkURL(strings.TrimSpace(one), true, "nats", "tls", "ws", "wss"); err != nil {
			if len(servers) == 1 {
				return err
			}
			return fmt.Errorf("server %d: %w", i+1, err)
		}
	}
	return nil
}

func checkVaultAddress(s string) error { return checkURL(s, false, "https", "http") }

var streamName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)

func checkStream(s string) error {
	if !streamName.MatchString(s) {
		return errors.New("is no stream name; allowed: 1 to 32 letters, digits, hyphens and underscores, a letter or digit first")
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// variable is the name of an environment variable.
func variable(to *string) text {
	return text{to: to, what: "name of an environment variable", check: func(s string) error {
		if !variableName.MatchString(s) {
			// Not repeated: somebody may have put the secret itself here.
			return errors.New("is not the name of an environment variable; allowed: letters, digits and underscores, no digit first; name the variable here, not its value")
		}
		return nil
	}}
}

// checkPlain wants from least to most printable characters without space.
func checkPlain(least, most int) func(string) error {
	return func(s string) error {
		if len(s) < least || len(s) > most {
			return fmt.Errorf("has %d bytes; allowed: %d to %d", len(s), least, most)
		}
		for _, r := range s {
			if r <= ' ' || r == 0x7f {
				return errors.New("has a space or control character, which is not allowed")
			}
		}
		return nil
	}
}
