package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"pgregory.net/rapid"
)

// TestGotFormFillsWhatEncodeWrites: with any values, and any nonce.
func TestGotFormFillsWhatEncodeWrites(t *testing.T) {
	t.Parallel()
	texts := rapid.OneOf(rapid.String(), rapid.Just(`"good_for_s":"0"`), rapid.Just(`"nonce":"to-be-filled-in"`), rapid.Just("a<b>&\u2028"))
	rapid.Check(t, func(t *rapid.T) {
		values := map[string]any{}
		for k, v := range rapid.MapOf(texts, texts).Draw(t, "values") {
			values[k] = v
		}
		values["nested"] = map[string]any{"good_for_s": "0", "nonce": "to-be-filled-in"}
		raw, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		seconds := rapid.Map(rapid.Int64Range(0, int64(MaxSeconds)), func(n int64) Seconds { return Seconds(n) })
		g := Got{
			Scope: "prod", Name: rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9-]{0,63}`).Draw(t, "name"), Epoch: rapid.Uint64().Draw(t, "epoch"),
			N: rapid.Uint64().Draw(t, "n"), Lease: rapid.Uint64Min(1).Draw(t, "lease"), Values: raw,
			Public: rapid.StringN(-1, -1, 256).Draw(t, "public"), Nonce: rapid.StringN(-1, -1, 64).Draw(t, "nonce"), GoodFor: seconds.Draw(t, "good for"),
		}
		if rapid.Bool().Draw(t, "expires") {
			in := seconds.Draw(t, "expires in")
			g.ExpiresIn = &in
		}
		want, wantErr := Encode(g)
		form, err := NewGotForm(g)
		if err != nil {
			t.Fatal(err)
		}
		got, err := form.Fill(g.Nonce, g.GoodFor, g.ExpiresIn)
		if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
			t.Fatalf("filled in as\n%q, %v\nencoded as\n%q, %v", got, err, want, wantErr)
		}
	})
}

func TestGotFormRefusesWhatEncodeRefuses(t *testing.T) {
	t.Parallel()
	g := Got{Scope: "prod", Name: "orders", Lease: 1, Values: Values(`{"a":1}`)}
	for name, spoil := range map[string]func(*Got){
		"no lease": func(g *Got) { g.Lease = 0 }, "no values": func(g *Got) { g.Values = nil },
		"values that are none": func(g *Got) { g.Values = Values(`{"a":`) }, "a name with a dot": func(g *Got) { g.Name = "a.b" },
	} {
		bad := g
		spoil(&bad)
		if _, err := NewGotForm(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	form, err := NewGotForm(g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := form.Fill("short", 0, nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("a short nonce: %v", err)
	}
	g.Values = Values(`{"a":"` + strings.Repeat("x", MaxBytes-200) + `"}`)
	if form, err = NewGotForm(g); err != nil {
		t.Fatal(err)
	}
	in := Seconds(time.Hour)
	if _, err := form.Fill(strings.Repeat("n", 64), MaxSeconds, &in); !errors.Is(err, ErrTooLarge) {
		t.Errorf("an answer that is too large: %v", err)
	}
}

// FuzzGetReadsItselfAsJSON: a get that reads itself is what encoding/json reads.
func FuzzGetReadsItselfAsJSON(f *testing.F) {
	for _, seed := range []string{
		`{"v":1,"type":"get","xkey":"X","nonce":"n"}`, `{"v":1,"type":"get","xkey":"X","nonce":"n","nonce":"m"}`, `{"v":1,"type":"get","xkey":"X","nonce":"n"} `,
		`{"v":1,"type":"get","xkey":"X","nonce":"\u0041"}`, `{"v":1,"type":"get","xkey":"","nonce":""}`, `{"v":2,"type":"get","xkey":"X","nonce":"n"}`,
		`{"v":1,"type":"get","xkey":"X","nonce":"n","service_keys":["X","Y"]}`, `{"v":1,"type":"get","xkey":"X","nonce":"n","service_keys":[]}`,
		`{"v":1,"type":"get","xkey":"X","nonce":"n","service_keys":["X",]}`, `{"v":1,"type":"get","xkey":"X","nonce":"n","service_keys":["X"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var scanned, read Get
		if !scanned.scan(data) {
			return
		}
		if err := json.Unmarshal(data, &read); err != nil || !reflect.DeepEqual(scanned, read) {
			t.Errorf("%q was read as %+v, and by encoding/json as %+v, %v", data, scanned, read, err)
		}
	})
}

// TestGetReadsItself: as our client writes it, with a pinned key, two, or none.
func TestGetReadsItself(t *testing.T) {
	t.Parallel()
	pair, err := nkeys.CreateCurveKeys()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, pinned := range [][]string{nil, {key}, {key, key}} {
		want := Get{XKey: key, Nonce: NewNonce(), ServiceKeys: pinned}
		written, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Get
		if !got.scan(written) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads itself as %+v", written, got)
		}
	}
}
