package vault

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// Kind is what an error means to who decides on it. Its String is a word that
// events and metrics use; the words never change.
type Kind uint8

const (
	// KindNone is no error, or an error that is not this package's.
	KindNone Kind = iota
	// KindInvalid: the call was wrong, no request was sent.
	KindInvalid
	// KindNotFound: the path has nothing, or the lease or the token is gone (C14, C40).
	KindNotFound
	// KindPermission: 401 or 403, or no token to send (C3).
	KindPermission
	// KindSealed: the server is sealed.
	KindSealed
	// KindStandby: the node is not the active one and has not forwarded the request (C52, C53).
	KindStandby
	// KindUninitialised: the server was never initialised.
	KindUninitialised
	// KindQuota: 429, see RetryAfter of [Error] (C53).
	KindQuota
	// KindConflict: 409, or a 412 that did not go away (C53).
	KindConflict
	// KindRedirect: a redirect that was not followed.
	KindRedirect
	// KindTransient: 5xx that says nothing more exact.
	KindTransient
	// KindTimeout: the operation's or the caller's deadline passed.
	KindTimeout
	// KindMalformed: the answer is not what the API promises (C57), or does not come from Vault.
	KindMalformed
	// KindRefused: 400 and other 4xx, the request will not be accepted as it is.
	KindRefused
	// KindUnreachable: no connection, or one that was lost.
	KindUnreachable
	// KindCanceled: the caller's context was cancelled.
	KindCanceled
)

var kindWords = [...]string{
	KindNone: "none", KindInvalid: "invalid", KindNotFound: "not-found", KindPermission: "permission",
	KindSealed: "sealed", KindStandby: "standby", KindUninitialised: "uninitialised", KindQuota: "quota",
	KindConflict: "conflict", KindRedirect: "redirect", KindTransient: "transient", KindTimeout: "timeout",
	KindMalformed: "malformed", KindRefused: "refused", KindUnreachable: "unreachable", KindCanceled: "canceled",
}

// String gives the kind's word, such as "permission" or "not-found".
func (k Kind) String() string {
	if int(k) < len(kindWords) {
		return kindWords[k]
	}
	return "none"
}

// Refusal tells whether the server refused or answered nonsense, so that a
// renewal is not worth repeating and a fresh acquisition is (L34). Everything
// else (down, slow, busy) is to be retried at the caller's pace.
func (k Kind) Refusal() bool {
	return k == KindNotFound || k == KindPermission || k == KindRefused || k == KindMalformed
}

// KindOf gives the kind of err: that of the [Error] in it, or for a bare
// context error KindCanceled or KindTimeout. KindNone for nil and for errors
// that are not this package's.
func KindOf(err error) Kind {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Kind
	case errors.Is(err, context.Canceled):
		return KindCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return KindTimeout
	}
	return KindNone
}

// kindOfStatus gives the kind of a definite answer. fromVault tells whether the
// body was the API's error document; a proxy's page is never taken for Vault's
// word that something is gone.
func kindOfStatus(status int, fromVault bool, messages []string) Kind {
	said := func(parts ...string) bool {
		for _, m := range messages {
			m = strings.ToLower(m)
			for _, p := range parts {
				if strings.Contains(m, p) {
					return true
				}
			}
		}
		return false
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return KindPermission
	case status == http.StatusNotFound:
		if !fromVault {
			return KindMalformed
		}
		return KindNotFound
	case status == http.StatusConflict, status == http.StatusPreconditionFailed:
		return KindConflict
	case status == http.StatusTooManyRequests:
		return KindQuota
	case status == 472, status == 473, status == 474:
		return KindStandby
	case status >= 500:
		switch {
		case said("not initialized", "not initialised"):
			return KindUninitialised
		case said("is sealed"):
			return KindSealed
		case said("node not active", "standby", "active cluster node not found", "active node not found"):
			return KindStandby
		case status == http.StatusNotImplemented && fromVault:
			return KindUninitialised
		}
		return KindTransient
	case status >= 400:
		return KindRefused
	}
	return KindMalformed
}
