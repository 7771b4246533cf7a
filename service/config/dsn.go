package config

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	placeholder = regexp.MustCompile(`\{\{([A-Za-z0-9_.-]{1,64})\}\}`)
	onlyOne     = regexp.MustCompile(`^\{\{[A-Za-z0-9_.-]{1,64}\}\}$`)
)

// placeholders gives the keys that a DSN template takes from a credential.
func placeholders(dsn string) []string {
	var keys []string
	for _, m := range placeholder.FindAllStringSubmatch(dsn, -1) {
		if !slices.Contains(keys, m[1]) {
			keys = append(keys, m[1])
		}
	}
	return keys
}

// checkDSN checks a PostgreSQL DSN template: a URL or keyword=value pairs, user
// and password from the credential, no password of its own. Its errors never
// repeat the template: a password may stand in it.
func checkDSN(s string) error {
	settings, err := settingsOf(s)
	if err != nil {
		return err
	}
	for _, part := range settings {
		switch strings.ToLower(part.name) {
		case "password", "sslpassword", "pgpassword":
			if !onlyOne.MatchString(part.value) {
				return errors.New("holds a password of its own, which is not allowed in a definitions file; write {{password}} in its place")
			}
		case "user":
			if !onlyOne.MatchString(part.value) {
				return errors.New("holds a user of its own; write {{username}}, so that the candidate itself logs in")
			}
		case "host":
			if placeholder.MatchString(part.value) {
				return errors.New("takes its host from the credential, which would send the password where the credential says; write the host out")
			}
		case "service", "servicefile", "passfile":
			return errors.New("names a service or password file, whose settings nobody could see here; write the settings out")
		}
	}
	for _, want := range []string{"user", "password", "host"} {
		if !slices.ContainsFunc(settings, func(part setting) bool { return part.name == want && part.value != "" }) {
			return errors.New("has no " + want)
		}
	}
	return nil
}

// setting is one setting of a DSN.
type setting struct{ name, value string }

// settingsOf takes a DSN template apart.
func settingsOf(s string) ([]setting, error) {
	if strings.Contains(s, "://") {
		return settingsOfURL(s)
	}
	return settingsOfPairs(s)
}

func settingsOfURL(s string) ([]setting, error) {
	// Braces are not allowed in a URL everywhere; a placeholder becomes a word
	// of the same meaning that is.
	const open, shut = "leasesvc-open-", "-leasesvc-shut"
	back := strings.NewReplacer(open, "{{", shut, "}}")
	u, err := url.Parse(placeholder.ReplaceAllString(s, open+"$1"+shut))
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.Scheme != "postgres" && u.Scheme != "postgresql":
		return nil, errors.New("its scheme is not postgres or postgresql")
	case u.Fragment != "":
		return nil, errors.New("has a fragment (#...); write %23 for a # in it")
	}
	all := []setting{{"host", back.Replace(u.Host)}}
	if u.User != nil {
		all = append(all, setting{"user", back.Replace(u.User.Username())})
		if password, ok := u.User.Password(); ok {
			all = append(all, setting{"password", back.Replace(password)})
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("has a query that can't be read")
	}
	for name, values := range query {
		for _, v := range values {
			all = append(all, setting{strings.ToLower(name), back.Replace(v)})
		}
	}
	return all, nil
}

// settingsOfPairs reads "host=a password='b c'", a backslash taking the next
// character as it is.
func settingsOfPairs(s string) ([]setting, error) {
	var all []setting
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		name, rest, ok := strings.Cut(s, "=")
		name = strings.TrimSpace(name)
		if !ok || name == "" || strings.ContainsAny(name, " '\\") {
			return nil, errors.New("is neither a URL nor keyword=value pairs")
		}
		value, rest, ok := cutValue(strings.TrimLeft(rest, " "))
		if !ok {
			return nil, errors.New("has a quote that is not closed")
		}
		all, s = append(all, setting{strings.ToLower(name), value}), rest
	}
	return all, nil
}

// cutValue cuts a value, quoted or not, from the front of s.
func cutValue(s string) (value, rest string, ok bool) {
	quoted := strings.HasPrefix(s, "'")
	i := 0
	if quoted {
		i = 1
	}
	var b strings.Builder
	for ; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case quoted && s[i] == '\'':
			return b.String(), s[i+1:], true
		case !quoted && s[i] == ' ':
			return b.String(), s[i:], true
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), "", !quoted
}
