package vault

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestC57_AnswersThatCannotBeUsed(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 80) + "1" + strings.Repeat("}", 80)
	for name, try := range map[string]struct{ body, says string }{
		"empty":                 {"", "empty"},
		"blank":                 {" \n", "empty"},
		"not JSON":              {"<html>sign in</html>", "not valid JSON"},
		"cut":                   {`{"lease_id":"a","data":{"k":`, "not valid JSON"},
		"two documents":         {`{"data":{"k":1}}{"data":{}}`, "goes on after its end"},
		"a list":                {`[1]`, "not a JSON object"},
		"null":                  {`null`, "not a JSON object"},
		"null data":             {`{"lease_id":"a","data":null}`, "no data"},
		"no data":               {`{"lease_id":"a"}`, "no data"},
		"data is a list":        {`{"data":["k"]}`, "not an object"},
		"data is a text":        {`{"data":"k"}`, "not an object"},
		"wrapped":               {`{"data":null,"wrap_info":{"token":"hvs.WrapWrapWrapWrap"}}`, "response-wrapped"},
		"duplicate key":         {`{"data":{"password":"a","password":"b"}}`, `"password" twice`},
		"duplicate by escape":   {`{"data":{"password":"a","\u0070assword":"b"}}`, `"password" twice`},
		"duplicate lease id":    {`{"lease_id":"a","lease_id":"b","data":{"k":1}}`, `"lease_id" twice`},
		"invalid UTF-8":         {"{\"data\":{\"k\":\"\xff\"}}", "UTF-8"},
		"half a character":      {`{"data":{"k":"\ud800"}}`, "half of a character"},
		"the other half":        {`{"data":{"k":"x\udc00"}}`, "half of a character"},
		"nested too deep":       {`{"data":` + deep + `}`, "nested deeper"},
		"lease id is a number":  {`{"lease_id":7,"data":{"k":1}}`, "lease_id is not a text"},
		"lease id is huge":      {`{"lease_id":"` + strings.Repeat("x", maxID+1) + `","data":{"k":1}}`, "lease_id has"},
		"lease id with newline": {`{"lease_id":"a\nb","data":{"k":1}}`, "control character"},
		"renewable is a text":   {`{"renewable":"yes","data":{"k":1}}`, "renewable is not"},
		"warnings is a text":    {`{"warnings":"no","data":{"k":1}}`, "warnings is not"},
		"9 MiB":                 {`{"data":{"k":"` + strings.Repeat("x", 9<<20) + `"}}`, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, says(200, try.body))
			_, err := f.client(t).Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
			var e *Error
			if !errors.As(err, &e) || e.Kind != KindMalformed || e.Status != 200 || !e.OutcomeUnknown {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), try.says) {
				t.Errorf("%q is not said in: %v", try.says, err)
			}
			if len(err.Error()) > 600 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestC57_DataIsGivenByteForByte(t *testing.T) {
	megabyte := strings.Repeat("x", 1<<20)
	for _, data := range []string{
		`{"n":9007199254740993,"f":1.10,"e":1E2}`,
		`{ "b" : 1 , "a" : { "c.d" : [ null, false, 0 ] } }`,
		`{"emoji":"\ud83d\ude00","slash":"\\ud800","raw":"ü"}`,
		`{"big":"` + megabyte + `"}`,
		`{}`,
	} {
		f := newFake(t, says(200, `{"lease_id":"l","lease_duration":60,"data":`+data+`}`))
		g, err := f.client(t).Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if string(g.Data) != data {
			t.Errorf("%.80s came as %.80s", data, g.Data)
		}
	}
	f := newFake(t, says(200, `{"data":{"b.c":1,"a":2,"Ä":3}}`))
	g, err := f.client(t).Read(t.Context(), "kv/app", nil, ReadOptions{})
	if err != nil || strings.Join(g.Keys, "|") != "a|b.c|Ä" {
		t.Errorf("keys %v, %v", g.Keys, err)
	}
}

func TestKV2IsUnwrapped(t *testing.T) {
	read := func(body string) (Grant, error) {
		return newFake(t, says(200, body)).client(t).Read(t.Context(), "secret/data/app", nil, ReadOptions{KVv2: true})
	}
	g, err := read(`{"lease_id":"","lease_duration":0,"data":{"data":{"k": 1.0},"metadata":{"version":7}}}`)
	if err != nil || g.Version != 7 || string(g.Data) != `{"k": 1.0}` || strings.Join(g.Keys, " ") != "k" {
		t.Errorf("%s version %d, %v", g.Data, g.Version, err)
	}
	for _, body := range []string{
		`{"data":{"k":1}}`, // version 1
		`{"data":{"data":null,"metadata":{"version":7}}}`,
		`{"data":{"data":"text","metadata":{"version":7}}}`,
		`{"data":{"data":{"k":1},"metadata":{"version":"x"}}}`,
	} {
		_, err := read(body)
		wantKind(t, err, KindMalformed)
	}
	deleted := newFake(t, says(404, `{"data":{"data":null,"metadata":{"version":7}}}`)).client(t)
	_, err = deleted.Read(t.Context(), "secret/data/app", nil, ReadOptions{KVv2: true})
	wantKind(t, err, KindNotFound)
}

func TestPathsThatLeadElsewhereAreRefused(t *testing.T) {
	f := newFake(t, says(200, `{}`))
	c := f.client(t)
	for _, path := range []string{"", "/db/creds/app", "db/creds/app/", "db//app", "db/../sys/mounts", "./db", "db/a?b=c", "db/a#b", "db/a\nb", strings.Repeat("x", 1025), "db/\xff"} {
		_, err := c.Read(t.Context(), path, nil, ReadOptions{})
		wantKind(t, err, KindInvalid)
	}
	if n := len(f.requests("")); n != 1 {
		t.Errorf("%d requests arrived, only the login was to", n)
	}
	_, _ = c.Read(t.Context(), "db/creds/a b%2e%41", nil, ReadOptions{})
	if n := len(f.requests("/v1/db/creds/a b%2e%41")); n != 1 {
		t.Error("a blank or percent sign in a path is not kept")
	}
}

func TestSentAtIsBeforeTheRequest(t *testing.T) {
	var at time.Time
	f := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		at = time.Now()
		says(200, `{"lease_id":"l","lease_duration":60,"data":{}}`)(w, r)
	})
	c := f.client(t)
	before := time.Now()
	g, err := c.Read(t.Context(), "db/creds/app", nil, ReadOptions{})
	if err != nil || g.SentAt.Before(before) || !g.SentAt.Before(at) {
		t.Errorf("called %s, sent %s, arrived %s (%v)", before, g.SentAt, at, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"lease_id":"a","lease_duration":1,"data":{"a":1}}`, `{"auth":{}}`, `{"a":"\ud83d\ude00"}`, `[[[`, `{"a":"\\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a := answer{status: 200, body: body}
		if e, err := a.parse(); err == nil && e.duration.Std() < 0 {
			t.Fatal("a negative duration")
		}
		_, _ = a.grant(request{}, ReadOptions{KVv2: len(body)%2 == 0})
		_, _ = a.tokenGrant()
		_, _ = a.tokenInfo()
		_, _ = a.leaseInfo("x")
	})
}

func ExampleKindOf() {
	err := fmt.Errorf("acquire orders: %w", &Error{Op: "read", Conn: "main", Path: "db/creds/orders", Kind: KindSealed, Status: 503})
	fmt.Println(KindOf(err), KindOf(err).Refusal())
	fmt.Println(err)
	// Output:
	// sealed false
	// acquire orders: vault main: read db/creds/orders: sealed (HTTP 503); unseal it
}
