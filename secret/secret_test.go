package secret_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/leasesvc/leasesvc/secret"
)

func TestI7_NothingPrintsASecret(t *testing.T) {
	const plain = "hvs.S3cretT0ken"
	s := secret.New(plain)
	holder := struct {
		Name  string
		Token secret.String
		Ptr   *secret.String
		Map   map[string]secret.String
		under struct{ token secret.String }
	}{"x", s, &s, map[string]secret.String{"k": s}, struct{ token secret.String }{s}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10.3s", "%T %v"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", holder)
		fmt.Fprintf(&out, verb+"\n", &holder)
	}
	for _, v := range []any{s, &s, holder, holder.Map} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "token", s, "ptr", &s, "holder", holder)
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "token", s, "ptr", &s, "holder", holder)
	fmt.Fprintln(&out, errors.New(fmt.Sprint("with ", s)))
	if strings.Contains(out.String(), plain) || strings.Contains(out.String(), fmt.Sprintf("%x", plain)) {
		t.Fatalf("a secret was printed:\n%s", out.String())
	}
	if !strings.Contains(out.String(), secret.Redacted) {
		t.Fatal("nothing was redacted: the test printed nothing")
	}
	if s.Reveal() != plain {
		t.Fatal("Reveal lost the secret")
	}
}

func TestEqual(t *testing.T) {
	a, b := secret.New("one"), secret.New("one")
	if !a.Equal(b) || a.Equal(secret.New("two")) || !(secret.String{}).Equal(secret.New("")) {
		t.Fatal("Equal does not compare the texts")
	}
}

func TestUnmarshalTextReadsConfiguration(t *testing.T) {
	var c struct{ Token secret.String }
	if err := json.Unmarshal([]byte(`{"Token":"abc"}`), &c); err != nil || c.Token.Reveal() != "abc" {
		t.Fatalf("got %q, %v", c.Token.Reveal(), err)
	}
}
