package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/leasesvc/leasesvc/secret"
)

const (
	// minToken is the least length of a token, in bytes.
	minToken = 16
	// cookieName holds who signed in. The prefix makes browsers insist on TLS.
	cookieName = "__Host-leasesvc"
	// signedInFor is how long that lasts.
	signedInFor = 12 * time.Hour
	maxForm     = 4096
)

// ErrShortToken refuses a token that could be guessed.
var ErrShortToken = errors.New("the token has less than 16 characters; make one with: openssl rand -base64 24")

// Login decides who may look: who shows the token, as "Authorization: Bearer" or
// by signing in on the page, or a client certificate that the server has
// verified. It needs TLS around it.
type Login struct {
	token        secret.String
	certificates bool
	key          [sha256.Size]byte
	attempts     *rate.Limiter
}

// NewLogin makes a login by a token (empty: by none) and, if certificates is set,
// by certificates that the server's TLS verified.
func NewLogin(token secret.String, certificates bool) (*Login, error) {
	text := token.Reveal()
	if text != "" && len(text) < minToken {
		return nil, ErrShortToken
	}
	if text == "" && !certificates {
		return nil, errors.New("a login needs a token or client certificates")
	}
	// Cookies are signed by a key that follows from the token, so that they hold
	// on every instance and over restarts, and end with the token.
	mac := hmac.New(sha256.New, []byte(text))
	_, _ = mac.Write([]byte("leasesvc: signed in to the page"))
	l := &Login{token: token, certificates: certificates, attempts: rate.NewLimiter(rate.Every(500*time.Millisecond), 10)}
	copy(l.key[:], mac.Sum(nil))
	return l, nil
}

// guard lets only those through who may look.
func (l *Login) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case l.may(r):
			if r.URL.Path == "/login" {
				http.Redirect(w, r, "/", http.StatusSeeOther)
				return
			}
			next.ServeHTTP(w, r)
		case r.URL.Path == "/login" && r.Method == http.MethodPost:
			l.signIn(w, r)
		case strings.HasPrefix(r.URL.Path, "/assets/"):
			next.ServeHTTP(w, r) // the same for everybody, and public
		case strings.HasPrefix(r.URL.Path, "/api/") || l.token.IsZero():
			w.Header().Set("WWW-Authenticate", "Bearer")
			respond(w, http.StatusUnauthorized, problem{Error: "sign in first: a bearer token or a client certificate is needed"})
		default:
			serveLogin(w, http.StatusUnauthorized, "")
		}
	})
}

// Protect lets only those through to next who may look, for what is no page: who
// signed in, or without a login (nil) whoever comes by a loopback name, or by any
// (anyHost).
func Protect(l *Login, anyHost bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case May(l, anyHost, r):
			next.ServeHTTP(w, r)
		case l != nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			respond(w, http.StatusUnauthorized, problem{Error: "sign in first: a bearer token or a client certificate is needed"})
		default:
			loopbackOnly(next).ServeHTTP(w, r)
		}
	})
}

// May tells whether a request's sender may look, as [Protect] decides it.
func May(l *Login, anyHost bool, r *http.Request) bool {
	if l != nil {
		return l.may(r)
	}
	return anyHost || loopbackHost(r.Host)
}

func (l *Login) may(r *http.Request) bool {
	if l.certificates && r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		return true
	}
	if l.token.IsZero() {
		return false
	}
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return l.attempts.Tokens() >= 1 && l.right(given)
	}
	c, err := r.Cookie(cookieName)
	return err == nil && l.signed(c.Value, time.Now())
}

// right compares in a time that tells nothing; a wrong one costs an attempt.
func (l *Login) right(given string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(l.token.Reveal()))
	if subtle.ConstantTimeCompare(a[:], b[:]) == 1 {
		return true
	}
	l.attempts.Allow()
	return false
}

func (l *Login) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if l.attempts.Tokens() < 1 {
		serveLogin(w, http.StatusTooManyRequests, "Too many attempts; wait a few seconds.")
		return
	}
	if !l.right(strings.TrimSpace(r.PostFormValue("token"))) {
		serveLogin(w, http.StatusUnauthorized, "That is not the token.")
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: l.sign(time.Now().Add(signedInFor)), Path: "/", MaxAge: int(signedInFor.Seconds()),
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// sign makes a cookie that holds until a time.
func (l *Login) sign(until time.Time) string {
	text := strconv.FormatInt(until.Unix(), 10)
	return text + "." + hex.EncodeToString(l.mac(text))
}

func (l *Login) mac(text string) []byte {
	mac := hmac.New(sha256.New, l.key[:])
	_, _ = mac.Write([]byte(text))
	return mac.Sum(nil)
}

func (l *Login) signed(cookie string, now time.Time) bool {
	text, sum, ok := strings.Cut(cookie, ".")
	given, err := hex.DecodeString(sum)
	if !ok || err != nil || !hmac.Equal(given, l.mac(text)) {
		return false
	}
	until, err := strconv.ParseInt(text, 10, 64)
	return err == nil && now.Before(time.Unix(until, 0))
}
