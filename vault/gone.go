package vault

import (
	"errors"
	"net/http"
	"strings"
)

// leaseGone makes KindNotFound of an answer that says that the lease is gone,
// whatever its status is: servers differ between 400 and 404 (C14, C40).
func leaseGone(err error) error {
	return asGone(err, "lease not found", "invalid lease", "lease expired", "lease is expired", "lease is not found")
}

// accessorGone is leaseGone for a token known by its accessor.
func accessorGone(err error) error {
	return asGone(err, "invalid accessor", "accessor not found", "token not found", "invalid token", "bad token", "lease not found", "lease expired")
}

// unlessGone forgives what is gone: it is what a revocation is for.
func unlessGone(err error) error {
	if KindOf(err) == KindNotFound {
		return nil
	}
	return err
}

// asGone looks at what the server said; a 404 that says nothing is a word too,
// one that names something else (a route, a namespace) is a wrong address.
func asGone(err error, words ...string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Status {
	case http.StatusNotFound:
		if e.Kind == KindNotFound && len(e.Messages) == 0 {
			return err
		}
	case http.StatusBadRequest, http.StatusInternalServerError:
	case http.StatusForbidden:
		// "permission denied" is ours to solve; only this one is about the accessor.
		words = []string{"invalid accessor"}
	default:
		return err
	}
	for _, m := range e.Messages {
		for _, w := range words {
			if strings.Contains(strings.ToLower(m), w) {
				gone := *e
				gone.Kind = KindNotFound
				return &gone
			}
		}
	}
	if e.Kind == KindNotFound {
		other := *e
		other.Kind = KindRefused
		return &other
	}
	return err
}
