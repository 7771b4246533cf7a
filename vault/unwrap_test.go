package vault

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasesvc/leasesvc/secret"
)

func TestWrappedSecretID(t *testing.T) {
	o := newOffice(time.Hour, 0)
	path, write := file(t, "hvs.WrappingT0ken1")
	live := map[string]string{"hvs.WrappingT0ken1": "secret-one", "hvs.WrappingT0ken2": "secret-two"}
	made := "auth/approle/role/app/secret-id"
	var mu sync.Mutex
	f := newFake(t, nil)
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		f.mu.Lock()
		a := f.seen[len(f.seen)-1]
		f.mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		switch r.URL.Path {
		case "/v1/sys/wrapping/lookup":
			if token, _ := a.body["token"].(string); live[token] == "" {
				says(400, `{"errors":["wrapping token is not valid or does not exist"]}`)(w, r)
				return
			}
			says(200, fmt.Sprintf(`{"data":{"creation_path":%q,"creation_ttl":60}}`, made))(w, r)
		case "/v1/sys/wrapping/unwrap":
			id := live[a.token]
			delete(live, a.token)
			says(200, fmt.Sprintf(`{"data":{"secret_id":%q,"secret_id_accessor":"x"}}`, id))(w, r)
		default:
			o.serve(w, r, a.body)
		}
	})
	login := Login{AppRole: &AppRole{RoleID: Source{Value: secret.New("r")}, SecretID: Source{File: path}, Wrapped: true}}
	c := f.stranger(t, func(cfg *Config) { cfg.Token, cfg.Login = secret.String{}, login })
	for range 2 { // the second time from memory
		if err := c.Login(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.requests("unwrap")); n != 1 {
		t.Errorf("unwrapped %d times", n)
	}
	write("hvs.WrappingT0ken2")
	if err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := []any{}
	for _, p := range o.proofs {
		sent = append(sent, p["secret_id"])
	}
	if fmt.Sprint(sent) != "[secret-one secret-one secret-two]" {
		t.Errorf("logged in with %v", sent)
	}
	write("hvs.WrappingT0ken1")
	err := c.Login(t.Context())
	if !errors.Is(err, ErrWrapping) || !strings.Contains(err.Error(), "somebody else") || strings.Contains(err.Error(), "WrappingT0ken") {
		t.Errorf("one that was used: %v", err)
	}
	mu.Lock()
	live["hvs.WrappingT0ken3"], made = "not-a-secret-id", "cubbyhole/x"
	mu.Unlock()
	write("hvs.WrappingT0ken3")
	if err := c.Login(t.Context()); !errors.Is(err, ErrWrapping) || !strings.Contains(err.Error(), "swapped") {
		t.Errorf("one that was made elsewhere: %v", err)
	}
	if n := len(f.requests("unwrap")); n != 2 {
		t.Errorf("a wrapping token that was made elsewhere was unwrapped")
	}
	mu.Lock()
	made = "auth/approle/role/a/b/secret-id"
	mu.Unlock()
	if err := c.Login(t.Context()); !errors.Is(err, ErrWrapping) {
		t.Errorf("a role with a slash: %v", err)
	}
	if s := fmt.Sprintf("%v %+v %#v", c.unwrapped, c.unwrapped, c); strings.Contains(s, "secret-two") || strings.Contains(s, "WrappingT0ken") {
		t.Error("a secret id is printed")
	}
}
