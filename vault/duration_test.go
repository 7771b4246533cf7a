package vault

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestC15_LeaseDurationInEveryForm(t *testing.T) {
	const ten = "315360000"
	for _, try := range []struct {
		raw, want string
		odd       string // part of what is said; empty: nothing is
	}{
		{`3600`, "3600", ""},
		{`0`, "0", ""},
		{`-0`, "0", ""},
		{`1e3`, "1000", ""},
		{`3600.0`, "3600", ""},
		{`0.25`, "0.25", ""},
		{`1.000000001`, "1.000000001", ""},
		{`315360000`, ten, ""},
		{`-1`, "0", "negative"},
		{`-0.5`, "0", "negative"},
		{`2147483648`, ten, "above ten years"},
		{`9.3e9`, ten, "above ten years"},
		{`9223372036854775807`, ten, "above ten years"},
		{`1e300`, ten, "above ten years"},
		{`1e999999999`, "0", "out of any range"},
		{`1e-300`, "0", "finer than a nanosecond"},
		{`0.1234567891`, "0.123456789", "finer than a nanosecond"},
		{strings.Repeat("9", 65), "0", "65 characters"},
		{`"3600"`, "3600", "text"},
		{`"1h"`, "3600", "text"},
		{`"1h0m0.5s"`, "3600.5", "text"},
		{`"-1h"`, "0", "negative"},
		{`"hvs.aVeryL0ngTokenIndeed"`, "0", "no duration"},
		{`""`, "0", "no duration"},
		{`"NaN"`, "0", "no duration"},
		{`"Infinity"`, "0", "no duration"},
		{`null`, "0", "null"},
		{``, "0", "absent"},
		{`true`, "0", "boolean"},
		{`{}`, "0", "object"},
		{`[1]`, "0", "array"},
	} {
		t.Run(try.raw, func(t *testing.T) {
			field := ""
			if try.raw != "" {
				field = `"lease_duration":` + try.raw + `,`
			}
			f := newFake(t, says(200, `{"lease_id":"db/creds/app/1",`+field+`"renewable":true,"data":{"username":"u","password":"p"}}`))
			c := f.client(t)
			g, err := c.Read(t.Context(), "db/creds/app", testGuard(), ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if g.TTL.String() != try.want {
				t.Errorf("TTL %s, want %s", g.TTL, try.want)
			}
			if (g.Suspect == "") != (try.odd == "") || !strings.Contains(g.Suspect, try.odd) {
				t.Errorf("suspect %q, want one with %q", g.Suspect, try.odd)
			}
			if strings.Contains(g.Suspect, "Token") {
				t.Error("the odd text is repeated")
			}
			if r, err := c.RenewLease(t.Context(), "db/creds/app/1", time.Hour); err != nil || r.TTL != g.TTL || r.Suspect != g.Suspect {
				t.Errorf("the renewal reads it otherwise: %s %q, %v", r.TTL, r.Suspect, err)
			}
		})
	}
}

func TestDurationIsExact(t *testing.T) {
	for _, d := range []time.Duration{0, 1, time.Second, 1500 * time.Millisecond, MaxDuration} {
		if got := DurationOf(d); got.Std() != d {
			t.Errorf("%s became %s", d, got.Std())
		}
	}
	if DurationOf(-1).Std() != 0 || DurationOf(MaxDuration+1).Std() != MaxDuration {
		t.Error("not clamped")
	}
	if (Duration{}).String() != "0" || !(Duration{}).IsZero() {
		t.Error("the zero value is not 0")
	}
}

func FuzzReadDuration(f *testing.F) {
	for _, s := range []string{`1`, `-1`, `1e9`, `"1h"`, `1E-9`, `0.000`, `"x"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		d, odd := readDuration("lease_duration", json.RawMessage(strings.TrimSpace(text)))
		if d.Std() < 0 || d.Std() > MaxDuration {
			t.Fatalf("%s became %s", text, d.Std())
		}
		if len(odd) > 300 {
			t.Fatalf("%d bytes are said", len(odd))
		}
		again, odd := readDuration("lease_duration", json.RawMessage(d.String()))
		if again != d || odd != "" {
			t.Fatalf("%s reads back as %s (%s)", d, again, odd)
		}
	})
}

func ExampleDuration() {
	d := DurationOf(90 * time.Minute)
	fmt.Println(d, d.Std())
	// Output: 5400 1h30m0s
}
